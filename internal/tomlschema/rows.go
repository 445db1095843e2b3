package tomlschema

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
)

// Shown writes a default of a type that the package does not know, and reports false for
// what it leaves to the package.
type Shown func(value any) (string, bool)

// Rows writes the keys of a table as rows of a Markdown table with the columns key,
// default and meaning; those of tables in it with a dot.
func Rows(b *bytes.Buffer, path string, value reflect.Value, shown Shown) {
	table := value.Type()
	for i := range table.NumField() {
		f := table.Field(i)
		key, doc := f.Tag.Get("key"), f.Tag.Get("doc")
		if key == "" {
			continue
		}
		text, special := "", false
		if shown != nil {
			text, special = shown(value.Field(i).Interface())
		}
		if f.Type.Kind() == reflect.Struct && !special {
			fmt.Fprintf(b, "| **%s** | | %s |\n", path+key, doc)
			Rows(b, path+key+".", value.Field(i), shown)
			continue
		}
		if one := f.Tag.Get("one"); one != "" {
			doc += " (" + Alternatives(one) + ")"
		} else if f.Tag.Get("max") != "" {
			doc += " (" + between(f.Tag) + ")"
		}
		if !special {
			text = show(value.Field(i))
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", path+key, text, doc)
	}
}

// Alternatives writes the values of a tag "one".
func Alternatives(one string) string { return "`" + strings.ReplaceAll(one, "|", "`, `") + "`" }

func show(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		if v.Len() == 0 {
			return "none"
		}
	case reflect.Map:
		return "none"
	}
	return fmt.Sprint(v.Interface())
}
