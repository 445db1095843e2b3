package main

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"talon/internal/abigen/schema"
)

// descriptor is talon.proto as another implementation of protobuf wants it. So the
// documentation of record is what the code is tested against.
func descriptor(t testing.TB) protoreflect.FileDescriptor {
	t.Helper()
	text, err := os.ReadFile("../../sdk/abi/talon.proto")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := schema.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("talon.proto"), Package: proto.String("talon.v1"), Syntax: proto.String("proto3"),
	}
	scalars := map[string]descriptorpb.FieldDescriptorProto_Type{
		"bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES, "string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
		"int64": descriptorpb.FieldDescriptorProto_TYPE_INT64, "uint32": descriptorpb.FieldDescriptorProto_TYPE_UINT32,
		"bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL, "double": descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	}
	for _, typ := range parsed.Types {
		if typ.Enum {
			enum := &descriptorpb.EnumDescriptorProto{Name: proto.String(typ.Name)}
			for _, v := range typ.Fields {
				enum.Value = append(enum.Value, &descriptorpb.EnumValueDescriptorProto{Name: proto.String(v.Name), Number: proto.Int32(int32(v.Number))})
			}
			file.EnumType = append(file.EnumType, enum)
			continue
		}
		message := &descriptorpb.DescriptorProto{Name: proto.String(typ.Name)}
		for _, f := range typ.Fields {
			field := &descriptorpb.FieldDescriptorProto{
				Name: proto.String(f.Name), Number: proto.Int32(int32(f.Number)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}
			switch {
			case f.Repeated:
				field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
			case f.Optional:
				field.Proto3Optional = proto.Bool(true)
				field.OneofIndex = proto.Int32(int32(len(message.OneofDecl)))
				message.OneofDecl = append(message.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + f.Name)})
			}
			scalar, isScalar := scalars[f.Type]
			switch {
			case isScalar:
				field.Type = scalar.Enum()
			case parsed.Enum(f) != nil:
				field.Type = descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum()
			default:
				field.Type = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
			}
			if !isScalar {
				field.TypeName = proto.String(".talon.v1." + f.Type)
			}
			message.Field = append(message.Field, field)
		}
		file.MessageType = append(file.MessageType, message)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		t.Fatalf("talon.proto: %v", err)
	}
	return d
}

var update = flag.Bool("update", false, "write testdata/messages.txt")

// TestMessages reads the output of the encoders of sdk/abi with another implementation of protobuf
// and talon.proto. The result must equal testdata/messages.txt. Encoding it again must give the
// same bytes. The samples must have every field of every message.
func TestMessages(t *testing.T) {
	golden, err := os.ReadFile("../../sdk/abi/testdata/messages.golden")
	if err != nil {
		t.Fatal(err)
	}
	messages := descriptor(t).Messages()
	seen := make(map[protoreflect.FullName]bool)
	var text strings.Builder
	for line := range strings.Lines(string(golden)) {
		name, encoded, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		bytes, err := hex.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		d := messages.ByName(protoreflect.Name(name))
		if d == nil {
			t.Fatalf("talon.proto has no message %s", name)
		}
		m := dynamicpb.NewMessage(d)
		if err := proto.Unmarshal(bytes, m); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
		if err != nil || hex.EncodeToString(again) != encoded {
			t.Errorf("%s: %s, %v; another implementation writes %x", name, encoded, err, again)
		}
		mark(m, seen)
		fmt.Fprintf(&text, "%s{%s}\n", name, show(m))
	}
	for i := range messages.Len() {
		fields := messages.Get(i).Fields()
		for k := range fields.Len() {
			if name := fields.Get(k).FullName(); !seen[name] {
				t.Errorf("no sample has %s", name)
			}
		}
	}
	const file = "testdata/messages.txt"
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(file); err != nil || string(want) != text.String() {
		t.Errorf("%v; the messages are\n%s\nand not those of %s", err, text.String(), file)
	}
}

// mark notes which fields a message has, and those in it.
func mark(m protoreflect.Message, seen map[protoreflect.FullName]bool) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		seen[f.FullName()] = true
		switch {
		case f.Kind() != protoreflect.MessageKind:
		case f.IsList():
			for i := range v.List().Len() {
				mark(v.List().Get(i).Message(), seen)
			}
		default:
			mark(v.Message(), seen)
		}
		return true
	})
}

// show prints every field of a message with its name, in the order of numbers,
// so that a person can read what it says.
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
