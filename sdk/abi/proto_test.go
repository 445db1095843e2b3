package abi

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// schema reads talon.proto, as far as that file goes: messages with scalar and
// message fields, and enums before they are used, one to a line. So the documentation of record is
// what the code is tested against.
func schema(t testing.TB) protoreflect.FileDescriptor {
	t.Helper()
	f, err := os.Open("talon.proto")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("talon.proto"), Package: proto.String("talon.v1"), Syntax: proto.String("proto3"),
	}
	var message *descriptorpb.DescriptorProto
	var enum *descriptorpb.EnumDescriptorProto
	scalars := map[string]descriptorpb.FieldDescriptorProto_Type{
		"bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES, "string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
		"int64": descriptorpb.FieldDescriptorProto_TYPE_INT64, "uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32,
		"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "//")
		words := strings.Fields(strings.NewReplacer(";", " ", "=", " ").Replace(line))
		switch {
		case len(words) == 0 || words[0] == "syntax" || words[0] == "package":
		case words[0] == "message":
			message = &descriptorpb.DescriptorProto{Name: proto.String(words[1])}
			file.MessageType = append(file.MessageType, message)
		case words[0] == "enum":
			enum = &descriptorpb.EnumDescriptorProto{Name: proto.String(words[1])}
			file.EnumType = append(file.EnumType, enum)
		case words[0] == "}":
			message, enum = nil, nil
		case enum != nil:
			enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(words[0]), Number: number(t, words[1])})
		default:
			field := &descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
			switch words[0] {
			case "repeated":
				field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
				words = words[1:]
			case "optional":
				field.Proto3Optional = proto.Bool(true)
				field.OneofIndex = proto.Int32(int32(len(message.OneofDecl)))
				message.OneofDecl = append(message.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + words[2])})
				words = words[1:]
			}
			field.Name, field.Number = proto.String(words[1]), number(t, words[2])
			if scalar, ok := scalars[words[0]]; ok {
				field.Type = scalar.Enum()
			} else {
				field.TypeName = proto.String(".talon.v1." + words[0])
				field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
				if slices.ContainsFunc(file.EnumType, func(e *descriptorpb.EnumDescriptorProto) bool { return e.GetName() == words[0] }) {
					field.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
				}
			}
			message.Field = append(message.Field, field)
		}
	}
	descriptor, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatalf("talon.proto: %v", err)
	}
	return descriptor
}

func number(t testing.TB, s string) *int32 {
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatalf("talon.proto: %v", err)
	}
	return proto.Int32(int32(n))
}

// message returns an empty message of the schema.
func message(t testing.TB, name string) *dynamicpb.Message {
	t.Helper()
	d := schema(t).Messages().ByName(protoreflect.Name(name))
	if d == nil {
		t.Fatalf("talon.proto has no message %s", name)
	}
	return dynamicpb.NewMessage(d)
}

// show prints every field of a message with its name, in the order of numbers,
// so that a test can state what it expects as text.
func show(m protoreflect.Message) string {
	if len(m.GetUnknown()) > 0 {
		return "unknown fields"
	}
	var b strings.Builder
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !m.Has(f) {
			continue
		}
		value := m.Get(f)
		if !f.IsList() {
			fmt.Fprintf(&b, "%s:%s ", f.Name(), showOne(f, value))
			continue
		}
		for i := range value.List().Len() {
			fmt.Fprintf(&b, "%s:%s ", f.Name(), showOne(f, value.List().Get(i)))
		}
	}
	return strings.TrimSpace(b.String())
}

func showOne(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return "{" + show(v.Message()) + "}"
	case protoreflect.BytesKind:
		return fmt.Sprintf("%.4x", v.Bytes())
	case protoreflect.StringKind:
		return strconv.Quote(v.String())
	case protoreflect.EnumKind:
		return string(f.Enum().Values().ByNumber(v.Enum()).Name())
	}
	return fmt.Sprint(v.Interface())
}
