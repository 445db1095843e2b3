// Package schema reads talon.proto, as far as that file goes: proto3 with enums and
// messages that are not nested, a field or a value to a line.
//
// Comments above a declaration describe it, for a field also the comment behind it. A comment line
// that begins with //@ is a mark for a generator: its name, then an instruction. Marks are no
// documentation. A mark "//@ file NAME" on its own holds for all that follows.
package schema

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// File is a schema.
type File struct {
	Types []*Type // messages and enums, in the order of the file
	named map[string]*Type
}

// Type is a message or an enum.
type Type struct {
	Name   string
	Enum   bool
	Doc    []string // lines
	Group  string   // of the latest mark file
	Fields []*Field // of an enum: its values
	Marks  Marks
}

// Field is a field of a message, or a value of an enum.
type Field struct {
	Name     string
	Number   int
	Type     string // a scalar, or the name of a type; empty for a value of an enum
	Repeated bool
	Optional bool // declared so
	Note     string
	Marks    Marks
}

// Marks are what is said to each generator.
type Marks map[string][]string

// Has reports whether a word stands among a generator's marks.
func (m Marks) Has(generator, word string) bool {
	for _, mark := range m[generator] {
		if mark == word {
			return true
		}
	}
	return false
}

// Get returns what follows a word, as in "rust name World".
func (m Marks) Get(generator, word string) (string, bool) {
	for _, mark := range m[generator] {
		if rest, ok := strings.CutPrefix(mark, word+" "); ok {
			return rest, true
		}
	}
	return "", false
}

// Type returns the type of a name, nil if there is none.
func (f *File) Type(name string) *Type { return f.named[name] }

// Message returns the type of a field if that is a message.
func (f *File) Message(field *Field) *Type {
	if t := f.named[field.Type]; t != nil && !t.Enum {
		return t
	}
	return nil
}

// Enum returns the type of a field if that is an enum.
func (f *File) Enum(field *Field) *Type {
	if t := f.named[field.Type]; t != nil && t.Enum {
		return t
	}
	return nil
}

// Size returns the number of bytes that a field has by its note, "32 bytes", 0 if the
// note does not say.
func (f *Field) Size() int { return number(sized, f.Note) }

// Max returns the limit of a field by its note, "at most 16", 0 if the note does not
// say.
func (f *Field) Max() int { return number(limited, f.Note) }

// Concatenated reports whether a field has several keys, one after the other.
func (f *Field) Concatenated() bool { return strings.Contains(f.Note, "one after the other") }

var (
	sized   = regexp.MustCompile(`(?:^|[,;] )(\d+) bytes`)
	limited = regexp.MustCompile(`at most (\d+)`)
)

func number(in *regexp.Regexp, note string) int {
	n := 0
	if m := in.FindStringSubmatch(note); m != nil {
		n, _ = strconv.Atoi(m[1]) // digits
	}
	return n
}

var scalars = map[string]bool{"bytes": true, "string": true, "int64": true, "uint32": true, "bool": true, "double": true}

// Parse reads a schema. Errors name the line.
func Parse(text string) (*File, error) {
	f := &File{named: make(map[string]*Type)}
	var at *Type
	var group string
	var doc []string
	marks := Marks{}
	n := 0
	fail := func(format string, args ...any) (*File, error) {
		return nil, fmt.Errorf("talon.proto:%d: %s", n, fmt.Sprintf(format, args...))
	}
	for line := range strings.Lines(text) {
		n++
		code, note, commented := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(strings.NewReplacer(";", " ", "=", " ", "{", " ").Replace(code))
		note = strings.TrimSpace(note)
		if len(words) == 0 {
			mark, isMark := strings.CutPrefix(note, "@ ")
			generator, said, _ := strings.Cut(mark, " ")
			switch {
			case !commented:
				doc, marks = nil, Marks{}
			case isMark && generator == "file":
				group = said
			case isMark:
				marks[generator] = append(marks[generator], said)
			case note != "":
				doc = append(doc, note)
			}
			continue
		}
		switch {
		case words[0] == "syntax" || words[0] == "package":
		case words[0] == "message" || words[0] == "enum":
			if at != nil || len(words) != 2 || f.named[words[1]] != nil {
				return fail("%q: want a name of its own, and no nesting", code)
			}
			at = &Type{Name: words[1], Enum: words[0] == "enum", Doc: doc, Group: group, Marks: marks}
			f.Types, f.named[at.Name] = append(f.Types, at), at
		case words[0] == "}":
			at = nil
		case at == nil:
			return fail("%q is outside of messages and enums", code)
		default:
			field := &Field{Note: strings.TrimSpace(strings.Join(append(doc, note), " ")), Marks: marks}
			if !at.Enum {
				field.Repeated, field.Optional = words[0] == "repeated", words[0] == "optional"
				if field.Repeated || field.Optional {
					words = words[1:]
				}
				field.Type, words = words[0], words[1:]
			}
			number, err := strconv.Atoi(words[len(words)-1])
			if len(words) != 2 || err != nil || number < 0 || !at.Enum && number == 0 {
				return fail("%q: want a field to a line: type name = number;", code)
			}
			field.Name, field.Number = words[0], number
			for _, other := range at.Fields {
				if other.Name == field.Name || other.Number == field.Number {
					return fail("%q: the name or number is taken", code)
				}
			}
			at.Fields = append(at.Fields, field)
		}
		doc, marks = nil, Marks{}
	}
	for _, t := range f.Types {
		for _, field := range t.Fields {
			if !t.Enum && !scalars[field.Type] && f.named[field.Type] == nil {
				return nil, fmt.Errorf("talon.proto: %s.%s: there is no type %s", t.Name, field.Name, field.Type)
			}
		}
	}
	return f, nil
}
