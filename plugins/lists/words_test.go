package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func compile(t testing.TB, list ...string) *words {
	t.Helper()
	w, err := compileWords("words", list)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestWords(t *testing.T) {
	tests := []struct {
		list string // separated by |
		text string
		want bool
	}{
		{"he|she|his|hers", "ushers", true},
		{"she", "ushe", true},
		{"abcd|bc", "abce", true}, // a word within a failed longer one
		{"abab", "ababab", true},
		{"abac", "ababac", true},
		{"spam", "SpAm", true},
		{"SPAM", "spam", true},
		{"Größe", "ÜBERGRÖSSE GRÖßE", true},
		{"привет", "ПРИВЕТ", true},
		{"привет", "приве", false},
		{"🤖", "a 🤖 b", true},
		{"k", "\u212a", true}, // the Kelvin sign is a k
		{"a b", "a  b", true},
		{"a  b", "A\n\t\u2028\u3000b", true},
		{"a b", "ab", false},
		{"viagra", "ＶＩＡＧＲＡ", true},
		{"viagra", "vi\u200ba\u00adgra", true},
		{"viagra", "𝓿𝓲𝓪𝓰𝓻𝓪", true},
		{"ｖｉａｇｒａ", "viagra", true},
		{"cafe\u0301", "CAFÉ", true},
		{"strasse", "Straße", true},
		{"spam", "", false},
		{"spam", "spa\xffm", false},
		{"x", "\xff\xfe", false},
		{"ö", "\xc3x", false},
		{"öx", "\xc3öx", true}, // after a letter that was cut off
		{"ö|x", "\xc3x", true},
		{"straße", "STRAẞE", true},
		{"ſs", "SS", true}, // the long s is an s
		{"日本", "今日本語", true},
		{"日本", "日木", false},
		{"aöb|öc", "AÖÖC", true},
	}
	for _, test := range tests {
		if got := compile(t, strings.Split(test.list, "|")...).in(test.text); got != test.want {
			t.Errorf("%q in %q: %v, want %v", test.list, test.text, got, test.want)
		}
	}
}

func TestWordsAgainstSearchingEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []rune("abABöÖ日")
	text := func(n int) string {
		b := make([]rune, n)
		for i := range b {
			b[i] = letters[rng.IntN(len(letters))]
		}
		return string(b)
	}
	for range 500 {
		list := make([]string, 1+rng.IntN(6))
		for i := range list {
			list[i] = text(1 + rng.IntN(6))
		}
		s := text(rng.IntN(12))
		want := false
		for _, word := range list {
			want = want || strings.Contains(strings.ToLower(s), strings.ToLower(word))
		}
		if got := compile(t, list...).in(s); got != want {
			t.Fatalf("%q in %q: %v, want %v", list, s, got, want)
		}
	}
}

func TestTooManyWords(t *testing.T) {
	list := make([]string, 2_000)
	for i := range list {
		list[i] = fmt.Sprintf("%08x%020d", i*7919, i)
	}
	if _, err := compileWords("deny_words", list); err == nil || !strings.Contains(err.Error(), "deny_words") {
		t.Errorf("2,000 long words: %v, want an error that names the key", err)
	}
}

func BenchmarkWords(b *testing.B) {
	list := make([]string, 500)
	for i := range list {
		list[i] = fmt.Sprintf("word%04d", i)
	}
	w := compile(b, list...)
	text := strings.Repeat("the quick brown fox jumps over ", 33)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		w.in(text)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("he|she", "ushers")
	f.Fuzz(func(t *testing.T, list, text string) {
		var clean []string
		for _, word := range strings.Split(strings.ToValidUTF8(list, ""), "|") {
			if word != "" {
				clean = append(clean, word)
			}
		}
		if len(clean) == 0 {
			return
		}
		w, err := compileWords("words", clean)
		if err != nil {
			return
		}
		for _, word := range clean {
			if !w.in(text + word) {
				t.Errorf("%q is not found in %q", word, text+word)
			}
		}
	})
}
