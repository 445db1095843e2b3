package scenario

import (
	"bytes"
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Text writes the scenario as TOML: the keys that differ from their defaults. [Parse] reads an
// equal scenario from it.
func (s *Scenario) Text() []byte {
	var b bytes.Buffer
	writeTable(&b, reflect.ValueOf(*s), reflect.ValueOf(*Default()))
	return b.Bytes()
}

// writeTable writes the keys of a table that differ, then the tables in it.
func writeTable(b *bytes.Buffer, table, standard reflect.Value) {
	for i := range table.NumField() {
		field := table.Field(i)
		switch field.Kind() {
		case reflect.Struct, reflect.Map:
			continue
		case reflect.Slice:
			if isTables(field) {
				continue
			}
		}
		if !equal(field, standard.Field(i)) {
			fmt.Fprintf(b, "%s = %s\n", table.Type().Field(i).Tag.Get("key"), valueText(field))
		}
	}
	for i := range table.NumField() {
		field, key := table.Field(i), table.Type().Field(i).Tag.Get("key")
		switch field.Kind() {
		case reflect.Struct:
			if !equal(field, standard.Field(i)) {
				fmt.Fprintf(b, "\n[%s]\n", key)
				writeTable(b, field, standard.Field(i))
			}
		case reflect.Map:
			names := field.MapKeys()
			slices.SortFunc(names, func(x, y reflect.Value) int { return cmp.Compare(x.String(), y.String()) })
			for _, name := range names {
				fmt.Fprintf(b, "\n[%s.%s]\n", key, name)
				writeTable(b, field.MapIndex(name), defaultsOf(field.Type().Elem()))
			}
		case reflect.Slice:
			for n := range field.Len() {
				if !isTables(field) {
					break
				}
				fmt.Fprintf(b, "\n[[%s]]\n", key)
				writeTable(b, field.Index(n), defaultsOf(field.Type().Elem()))
			}
		}
	}
}

func equal(a, b reflect.Value) bool { return reflect.DeepEqual(a.Interface(), b.Interface()) }

// isTables reports whether a list is one of tables.
func isTables(list reflect.Value) bool { return list.Type().Elem().Kind() == reflect.Struct }

// defaultsOf returns an entry of a map or list with its defaults.
func defaultsOf(t reflect.Type) reflect.Value {
	entry := reflect.New(t)
	entry.Interface().(interface{ SetDefaults() }).SetDefaults()
	return entry.Elem()
}

func valueText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Duration:
		return strconv.Quote(x.String())
	case string:
		if strings.Contains(x, "\n") && !strings.Contains(x, "'''") && !strings.Contains(x, "\r") {
			return "'''\n" + x + "'''"
		}
		return quoted(x)
	case []int:
		return strings.Join(strings.Fields(fmt.Sprint(x)), ", ")
	case float64:
		text := strconv.FormatFloat(x, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	return fmt.Sprint(v.Interface())
}
