package guest

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"talon/host"
)

func FuzzReason(f *testing.F) {
	f.Add("blocked: no")
	f.Add("no prefix")
	f.Add("blocked: \r\n\x00\u202e" + strings.Repeat("é", 600))
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "")
		for action, prefix := range map[host.Action]string{host.Reject: "", host.Hold: "purgatory", host.RequireAuth: "auth-required"} {
			got := Reason(action, text)
			before, _, ok := strings.Cut(got, ": ")
			if !ok || prefix != "" && before != prefix || !isPrefix(before) {
				t.Errorf("%v %q becomes %q: no standard prefix", action, text, got)
			}
			if len(got) > maxReason || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
				t.Errorf("%v %q becomes %q: not one line of UTF-8, at most %d bytes", action, text, got, maxReason)
			}
		}
	})
}
