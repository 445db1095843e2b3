package caseless

import "testing"

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"plain":              "plain",
		"Plain TEXT":         "plain text",
		"Straße":             "strasse",
		"STRASSE":            "strasse",
		"vi\u200bag\u00adra": "viagra",
		"ＶＩＡＧＲＡ":             "viagra",
		"𝓿𝓲𝓪𝓰𝓻𝓪":             "viagra",
		"ΣΊΣΥΦΟΣ":            "σι\u0301συφοσ",
		"\xff":               "\ufffd",
	} {
		if got := Fold(text); got != want {
			t.Errorf("%+q: got %+q, want %+q", text, got, want)
		}
	}
}

func FuzzFold(f *testing.F) {
	f.Add("e\u0323\u0301 É\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if form := Fold(text); Fold(form) != form {
			t.Errorf("%+q has the form %+q, and that has %+q", text, form, Fold(form))
		}
	})
}
