package ingest

import (
	"fmt"
	"strings"
	"testing"

	"talon/host"
)

// The sender of a state learns which refs it removes from the state in effect, and that its HEAD
// names nothing.
func TestStateNote(t *testing.T) {
	const object = "1111111111111111111111111111111111111111"
	key := func(n byte) host.PubKey { return host.PubKey{n} }
	n := 0
	make := func(author byte, kind host.Kind, at int64, tags ...host.Tag) *host.Event {
		n++
		e := event(n, append([]host.Tag{{"d", "repo"}}, tags...)...)
		e.Kind, e.PubKey, e.CreatedAt = kind, key(author), at
		e.JSON = e.AppendJSON(nil)
		return e
	}
	refs := func(words ...string) (tags []host.Tag) {
		for _, word := range words {
			if head, ok := strings.CutPrefix(word, "HEAD="); ok {
				tags = append(tags, host.Tag{"HEAD", "ref: refs/heads/" + head})
			} else {
				tags = append(tags, host.Tag{"refs/heads/" + word, object})
			}
		}
		return tags
	}
	m := newMemory()
	put := func(e *host.Event) { m.events[e.ID] = e }
	put(make(1, 30617, 1, host.Tag{"maintainers", key(2).String()}))
	put(make(4, 30617, 1))
	put(make(1, 30618, 10, refs("main", "old")...))
	put(make(2, 30618, 20, refs("main", "topic")...)) // in effect
	put(make(3, 30618, 30, refs("stranger")...))
	var many []string
	for i := range 9 {
		many = append(many, fmt.Sprint("b", i))
	}
	put(make(4, 30618, 10, refs(many...)...))
	for name, tt := range map[string]struct {
		e      *host.Event
		origin host.Origin
		want   string
	}{
		"keeps all":              {e: make(1, 30618, 40, refs("main", "topic", "new")...)},
		"removes one":            {e: make(1, 30618, 40, refs("main")...), want: "it removes refs/heads/topic"},
		"by another maintainer":  {e: make(2, 30618, 40, refs("topic")...), want: "it removes refs/heads/main"},
		"older":                  {e: make(1, 30618, 15, refs("main")...)},
		"of many":                {e: make(4, 30618, 40, refs("x")...), want: "it removes refs/heads/b0 refs/heads/b1 refs/heads/b2 refs/heads/b3 refs/heads/b4 and 4 more"},
		"from another relay":     {e: make(1, 30618, 40, refs("main")...), origin: host.FromSync},
		"without refs":           {e: make(1, 30618, 40)},
		"of nobody's repository": {e: make(9, 30618, 40, refs("main")...)},
		"no state":               {e: make(1, 30617, 40, refs("main")...)},
		"HEAD": {e: make(1, 30618, 40, refs("HEAD=gone", "main", "topic")...),
			want: "its HEAD names refs/heads/gone, which it does not have, so HEAD stays on a branch that is there"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := stateNote(t.Context(), &host.Item{Event: tt.e, Source: &host.Source{Origin: tt.origin}}, readerOf(m))
			if err != nil || got != tt.want {
				t.Errorf("%q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestWithNote(t *testing.T) {
	for _, tt := range []struct {
		code         host.Code
		reason, note string
		want         string
	}{
		{host.Stored, "", "", ""},
		{host.Stored, "", "it removes x", "note: it removes x"},
		{host.Held, host.ReasonHeld, "it removes x", host.ReasonHeld + "; it removes x"},
		{host.Replaced, "replaced: have newer event", "it removes x", "replaced: have newer event"},
	} {
		if got := withNote(host.Outcome{Code: tt.code, Reason: tt.reason}, tt.note); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.code, got, tt.want)
		}
	}
}
