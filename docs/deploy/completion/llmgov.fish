function __complete_llmgov
    set -lx COMP_LINE (commandline -cp)
    test -z (commandline -ct)
    and set COMP_LINE "$COMP_LINE "
    "/usr/bin/llmgov"
end
complete -c llmgov -a "(__complete_llmgov)"
