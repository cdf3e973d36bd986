package admissionv1_test

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"path"
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"

	"github.com/llmgov/llmgov/internal/test/testkit"
)

var update = flag.Bool("update", false, "write the generated code")

// source is the name by which programs that use several descriptions know this one.
const source = "llmgov/admission/v1/admission.proto"

// plugins make Go of descriptions.
var plugins = []string{
	"google.golang.org/protobuf/cmd/protoc-gen-go",
	"google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
}

// formatter formats what they make as all other code is.
const formatter = "mvdan.cc/gofumpt@v0.12.0"

// The generated code is that of admission.proto.
func TestGenerated(t *testing.T) {
	if testing.Short() {
		t.Skip("it downloads and builds the generators")
	}
	request := testkit.Must(proto.Marshal(compile(t)))(t)
	for _, plugin := range plugins {
		for _, f := range generate(t, plugin, request) {
			name := path.Base(f.GetName())
			want := run(t, formatter, []byte(f.GetContent()))
			if *update {
				testkit.OK(t, os.WriteFile(name, want, 0o644))
			}
			have, err := os.ReadFile(name)
			if err != nil || !bytes.Equal(have, want) {
				t.Errorf("%s is not up to date (%v), run: go test ./governor/remote/admissionv1 -update", name, err)
			}
		}
	}
}

// compile is the request that protoc would send to its plugins.
func compile(t *testing.T) *pluginpb.CodeGeneratorRequest {
	t.Helper()
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(name string) (io.ReadCloser, error) {
				if name != source {
					return nil, os.ErrNotExist
				}
				return os.Open(path.Base(source))
			},
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files := testkit.Must(compiler.Compile(t.Context(), source))(t)
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: []string{source}, Parameter: proto.String("paths=source_relative")}
	imports := files[0].Imports()
	for i := range imports.Len() {
		request.ProtoFile = append(request.ProtoFile, describe(imports.Get(i).FileDescriptor))
	}
	request.ProtoFile = append(request.ProtoFile, describe(files[0]))
	return request
}

func describe(f protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	if d, ok := f.(interface {
		FileDescriptorProto() *descriptorpb.FileDescriptorProto
	}); ok {
		return d.FileDescriptorProto() // with its comments
	}
	return protodesc.ToFileDescriptorProto(f)
}

// generate runs a plugin.
func generate(t *testing.T, plugin string, request []byte) []*pluginpb.CodeGeneratorResponse_File {
	t.Helper()
	var answer pluginpb.CodeGeneratorResponse
	testkit.OK(t, proto.Unmarshal(run(t, plugin, request), &answer))
	if answer.GetError() != "" {
		t.Fatalf("%s: %s", plugin, answer.GetError())
	}
	return answer.File
}

// run is what a tool makes of its input.
func run(t *testing.T, tool string, input []byte) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", tool)
	cmd.Stdin = bytes.NewReader(input)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", tool, err, said.String())
	}
	return out
}
