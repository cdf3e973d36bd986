complete -o default -C "/usr/bin/llmgov" llmgov
