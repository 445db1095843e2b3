package host

import (
	"slices"
	"strings"
	"testing"

	"talon/sdk/grasp"
)

func TestSearchFinds(t *testing.T) {
	repository := &Event{Kind: KindAnnouncement, Tags: Tags{
		{"d", "git-remote"}, {"name", "Straße Tools"}, {"description", "Push code over nostr, 日本語テキスト"}, {"t", "Wasm"}, {"clone", "https://elsewhere.test"},
	}, Content: "content"}
	issue := &Event{Kind: grasp.KindIssue, Tags: Tags{{"subject", "Crash when pushing TAGS"}, {"t", "bug"}}, Content: "It\u00a0says \"fatal: café\" since v1.2"}
	patch := &Event{Kind: grasp.KindPatch, Content: "From 0123 Mon Sep 17\nFrom: Ann <ann@elsewhere.test>\nSubject: [PATCH] fix the parser\n\nbody"}
	for _, tt := range []struct {
		event  *Event
		search string
		found  bool
	}{
		{repository, "git", true},
		{repository, "REMOTE git", true},
		{repository, "STRASSE", true},
		{repository, "straße nostr wasm", true},
		{repository, "nostr missing", false},
		{repository, "elsewhere", false},
		{repository, "content", false},
		{repository, "日本", true},
		{repository, "本語", true},
		{repository, "日語", false},
		{repository, "ﾃｷｽﾄ", true},
		{repository, "include:spam language:en nostr", true},
		{repository, "language:de", true},
		{repository, "scope:nostr", false},
		{repository, "", true},
		{repository, "!?", true},
		{issue, "tags crash", true},
		{issue, "cafe\u0301", true},
		{issue, "cafe", false},
		{issue, "v1.2", true},
		{issue, "bug fatal", true},
		{issue, "crash crash", true},
		{issue, "cras", false},
		{patch, "parser fix", true},
		{patch, "ann", false},
		{&Event{Kind: 1, Content: "note"}, "note", false},
		{&Event{Kind: grasp.KindComment, Content: "note"}, "note", true},
	} {
		conditions, err := Search(tt.search)
		if err != nil {
			t.Fatal(err)
		}
		f := Filter{Tags: conditions, Limit: -1}
		if got := f.Matches(tt.event); got != tt.found {
			t.Errorf("%q: found %v, want %v among %q", tt.search, got, tt.found, tt.event.Words())
		}
	}
	if _, err := Search(strings.Repeat("a ", 99) + "b c d e f g h i j k l m n o p"); err != nil {
		t.Errorf("16 different words: %v", err)
	}
	if got, err := Search("a b c d e f g h i j k l m n o p q"); err == nil {
		t.Errorf("17 words: got %v", got)
	}
}

func TestWordsOfEachKind(t *testing.T) {
	for kind := range Kind(65535) {
		e := &Event{Kind: kind, Tags: Tags{{"name", "word"}}, Content: "word"}
		if got, want := e.Words() != nil, slices.Contains(SearchedKinds(), kind); got != want {
			t.Errorf("kind %d: has words %v, want %v", kind, got, want)
		}
	}
}

// TestWordsAreBounded has a subject that is found although the content is long.
func TestWordsAreBounded(t *testing.T) {
	long := strings.Repeat("ä", 200)
	e := &Event{Kind: grasp.KindIssue, Content: long + strings.Repeat(" x1 y2 日本 z", 1<<16), Tags: Tags{{"subject", "first"}}}
	for i := range 40 {
		e.Content = strings.Repeat(string(rune('a'+i%26)), i+2) + " " + e.Content
	}
	words := e.Words()
	if len(words) != maxEventWords || words[0] != "first" {
		t.Errorf("got %d words, want %d: %q", len(words), maxEventWords, words)
	}
	got, err := Search(long)
	if err != nil || len(got) != 1 || len(got[0].Values[0]) > maxWordBytes {
		t.Errorf("a long word: got %q, %v", got, err)
	}
}

func FuzzSearch(f *testing.F) {
	f.Add("a bß 日本語 \u0301 \xff ﬁ")
	f.Fuzz(func(t *testing.T, text string) {
		e := &Event{Kind: grasp.KindIssue, Content: text}
		conditions, err := Search(text)
		if err != nil || strings.Contains(text, ":") {
			return
		}
		if filter := (Filter{Tags: conditions}); !filter.Matches(e) {
			t.Errorf("%+q: its own words %q do not find it by %v", text, e.Words(), conditions)
		}
		for _, word := range e.Words() {
			if word == "" || len(word) > maxWordBytes {
				t.Errorf("%+q has the word %+q", text, word)
			}
			again, err := Search(word)
			if err != nil || len(again) != 1 || again[0].Values[0] != word {
				t.Errorf("%+q: the word %+q is found by %+q, %v", text, word, again, err)
			}
		}
	})
}

func BenchmarkWords(b *testing.B) {
	e := &Event{Kind: grasp.KindIssue, Tags: Tags{{"subject", "Crash when pushing tags"}}, Content: strings.Repeat("It says that something is wrong with the Größe of a file. ", 100)}
	for b.Loop() {
		e.Words()
	}
}
