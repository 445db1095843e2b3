package manifest

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
)

// inWords says of a value of the wrong type where it is and what is wanted, in the
// words of JSON.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) || wrong.Field == "" {
		return err
	}
	return fmt.Errorf("%s is %.60s: want %s", wrong.Field, wrong.Value, typeInWords(wrong.Type))
}

func typeInWords(t reflect.Type) string {
	if t.Kind() == reflect.Uint32 && reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a name"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Array: // keys and signatures are written as text
		return "hex digits"
	case reflect.Float64:
		return "a number"
	case reflect.Uint16:
		return "a whole number from 0 to 65535"
	case reflect.Uint32:
		return "a whole number from 0 to 4294967295"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	}
	return "an object"
}
