package main

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"talon/sdk/caseless"
)

func TestTablesAreCurrent(t *testing.T) {
	const file = "../../sdk/caseless/table_gen.go"
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, err := tables()
	if err != nil || !bytes.Equal(have, want) {
		t.Fatalf("%s is not what casegen writes (%v): run go generate ./sdk/caseless", file, err)
	}
}

// TestFoldOfEachCharacter compares the package with the tables that it is made of.
func TestFoldOfEachCharacter(t *testing.T) {
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		if got, want := caseless.Fold(string(r)), fold(string(r)); got != want {
			t.Errorf("%U: got %+q, want %+q", r, got, want)
		}
	}
}

// TestFoldOfTexts draws texts of letters, marks and invisible characters.
func TestFoldOfTexts(t *testing.T) {
	some := []rune("aAßİéſ \u0301\u0323\u0345\u0307\u200b\u00ad\ufe0f각ᄀㅏガｶﾞЙй①ﬁΣς\u1ec7\u0958")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text []rune
		for range rng.IntN(8) {
			text = append(text, some[rng.IntN(len(some))])
		}
		got, want := caseless.Fold(string(text)), fold(string(text))
		if got != want || caseless.Fold(got) != got {
			t.Fatalf("%+q: got %+q, want %+q, again %+q", string(text), got, want, caseless.Fold(got))
		}
		for _, same := range []string{norm.NFC.String(string(text)), norm.NFKC.String(string(text))} {
			if caseless.Fold(same) != want {
				t.Fatalf("%+q: got %+q, want %+q as for %+q", same, caseless.Fold(same), want, string(text))
			}
		}
	}
}
