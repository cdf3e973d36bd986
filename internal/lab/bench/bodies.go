package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"
)

// promptSize makes a body of about 2 KB.
const promptSize = 1800

// body is a chat request. Its mock member, which only the model server reads,
// makes the answer the same however it was clamped.
func body(stream bool, mock string) string {
	return bodyOf(strings.Repeat("the quick brown fox jumps over the lazy dog ", promptSize/44), stream, mock)
}

func bodyOf(prompt string, stream bool, mock string) string {
	content, _ := json.Marshal(prompt)
	return fmt.Sprintf(`{"model":"gpt-4o-mini","temperature":0.7,"max_tokens":%d,"stream":%t,"user":"u-1",`+
		`"messages":[{"role":"system","content":"You are helpful."},{"role":"user","content":%s}],`+
		`"mock":{%s}}`, maxTokens, stream, content, mock)
}

// question is a body of 0.4 KB.
var question = bodyOf("How long is a piece of string, and does it depend on where I cut it? Please answer in a few words, because the answer is read aloud, and give no sources. Do not ask me back.", false, `"output_tokens":20`)

// prompt is a chat request with a text of so many bytes. The texts are random, so that no processor
// learns their bytes by heart, and the same in each run.
func prompt(size int, line func(*rand.Rand) string) string {
	return promptOf(size, line, false, `"output_tokens":20`)
}

func promptOf(size int, line func(*rand.Rand) string, stream bool, mock string) string {
	r := rand.New(rand.NewSource(1))
	var text strings.Builder
	for text.Len() < size {
		text.WriteString(line(r))
	}
	return bodyOf(text.String()[:size], stream, mock)
}

var words = strings.Fields("the of and a to in is that it was for on are as with his they at be this from have or by one had not but what all were when we there can an your which their said if do will each about how up out them then she many some so these would other into has more her two like him see time could no make than first been its who now people my made over did down only way find use may water long little very after words called just where most know")

// prose is a sentence.
func prose(r *rand.Rand) string {
	var line strings.Builder
	for range 6 + r.Intn(18) {
		line.WriteString(words[r.Intn(len(words))])
		line.WriteByte(' ')
	}
	return strings.TrimSpace(line.String()) + ". "
}

// markdown is a line of Markdown or of code in it, with what JSON escapes.
func markdown(r *rand.Rand) string {
	text := prose(r)
	switch r.Intn(6) {
	case 0:
		return "\n## " + text[:min(40, len(text)-2)] + "\n\n"
	case 1, 2:
		return "- **" + words[r.Intn(len(words))] + "**: " + text + "\n"
	case 3:
		return "\tif err := f.Read(\"" + words[r.Intn(len(words))] + "\"); err != nil {\n\t\treturn fmt.Errorf(\"" + text[:12] + ": %w\", err)\n\t}\n"
	}
	return text + "\n"
}

// embeddings asks for the embeddings of some texts.
func embeddings(texts, dimensions int) string {
	r := rand.New(rand.NewSource(1))
	input := make([]string, texts)
	for i := range input {
		input[i] = prose(r)
	}
	list, _ := json.Marshal(input)
	return fmt.Sprintf(`{"model":"text-embedding-3-small","dimensions":%d,"input":%s}`, dimensions, list)
}
