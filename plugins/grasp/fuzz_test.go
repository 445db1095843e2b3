package main

import (
	"strings"
	"testing"

	"talon/sdk/policy"
	"talon/sdk/policy/policytest"
)

// FuzzAdmit decides about events of any kind and with any tags, among others that
// are stored and held with the same. The harness fails if the policy asks what no
// relay answers, panics, or answers with nonsense; and every event is decided.
func FuzzAdmit(f *testing.F) {
	for _, kind := range []uint16{0, 1, 5, 1111, 1617, 1618, 1619, 1621, 1630, 10317, 30023, 30617, 30618} {
		f.Add(kind, "d talon\na "+address(olivia)+"\nc "+commit+"\ne "+strings.Repeat("ab", 32)+"\nclone https://"+here+"/prs/x\nrelays wss://"+here)
	}
	f.Add(uint16(30618), "d \xff\nHEAD ref: x\nrefs/heads/main "+commit+"\nrefs/heads/main/x "+commit)
	f.Add(uint16(1618), "a 30617::\na 30617:"+strings.Repeat("0", 64)+":\xff\nc "+commit+"\nq :::")
	f.Add(uint16(30617), "d "+strings.Repeat("x", 2000)+"\nmaintainers\nmaintainers x "+strings.Repeat("0", 64)+"\n\nclone")
	configs := []map[string]any{
		nil,
		{"archive_all": true, "deny": []any{npub(mallory), "warez"}, "max_repositories_per_author": 1},
		{"allow": []any{npub(olivia)}, "archive_services": []any{"elsewhere.com"}, "profiles": false},
	}
	f.Fuzz(func(t *testing.T, kind uint16, text string) {
		// JSON has no invalid UTF-8, so that no event has.
		e := event(stan, int(kind), strings.Split(strings.ToValidUTF8(text, "?"), "\n")...)
		for _, config := range configs {
			w := newWorld(t, config)
			w.hosts()
			stored, held := e, e
			stored.PubKey, held.PubKey = carl, mike
			stored.Kind = 30617
			w.stores(stored)
			w.holds(held)
			if v := w.Admit(e); v.Action == policy.ActionPass || v.Rule == "" {
				t.Errorf("%v by %q", v.Action, v.Rule)
			}
			for _, tag := range e.Tags {
				w.Push(policytest.Push{Repo: strings.Join(tag, ":")})
			}
		}
	})
}
