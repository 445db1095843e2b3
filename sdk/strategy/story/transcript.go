package story

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"talon/sdk/abi"
)

// add writes a step.
func (t *transcript) add(s *recorded) {
	var v abi.StepView
	if v.Decode(s.request) != nil {
		return
	}
	if v.Now > t.now && v.Kind != abi.InputTimerFired {
		t.input("after " + Elapsed(v.Now-t.now))
		t.now = v.Now
	}
	var said []string
	t.write(&v)
	actions, err := abi.DecodeActions(s.answer, everything)
	if err != nil {
		said = append(said, "# an answer that a host refuses: "+err.Error())
	}
	for i := range actions {
		if line, ok := t.action(&actions[i]); ok {
			said = append(said, line)
		}
	}
	if v.Kind == abi.InputTimerFired {
		t.fired(v.Now, said)
		return
	}
	t.said = append(t.said, said...)
}

// fired writes the actions at the time of a timer. Timers need no input: the player has them.
func (t *transcript) fired(now int64, said []string) {
	if len(said) == 0 {
		return // the next input says how much time passes
	}
	if now > t.now {
		t.input("after " + Elapsed(now-t.now))
		t.now = now
		said = append([]string{"at " + t.since(now)}, said...)
	}
	t.said = append(t.said, said...)
}

// write writes an input.
func (t *transcript) write(v *abi.StepView) {
	switch v.Kind {
	case abi.InputInit:
		t.world(v.Init())
	case abi.InputLocalEvent:
		t.event(v.LocalEvent())
	case abi.InputRepoGone:
		t.input("gone", t.address(v.RepoGone().Repository))
	case abi.InputRelayConnected:
		c := v.RelayConnected()
		words := []string{"connected", c.Relay}
		words = append(words, t.when("ended", c.DisconnectedAt)...)
		words = append(words, t.when("last", c.LastConnected)...)
		if c.Anew {
			words = append(words, "anew")
		}
		t.input(append(words, capabilities(&c.Capabilities)...)...)
	case abi.InputRelayDisconnected:
		d := v.RelayDisconnected()
		verb := "failed"
		if d.Connected {
			verb = "disconnected"
		}
		words := append([]string{verb, d.Relay, className(d.Class)}, number("failures", uint64(d.Failures))...)
		if d.RetryAt == 0 {
			words = append(words, "never")
		}
		t.input(append(words, t.when("retry", d.RetryAt)...)...)
	case abi.InputEose:
		e := v.Eose()
		words := append([]string{"eose", e.Relay, e.ID}, number("events", uint64(e.Events))...)
		words = append(words, number("new", uint64(e.New))...)
		t.input(append(words, t.when("oldest", e.MinCreatedAt*1000)...)...)
	case abi.InputClosed:
		c := v.Closed()
		t.input("closed", c.Relay, c.ID, className(c.Class))
	case abi.InputHistoricDone:
		t.done(v.HistoricDone())
	case abi.InputRootActivity:
		a := v.RootActivity()
		dates := a.Latest()
		for i := range a.NumRoots() {
			id := a.Root(i)
			words := []string{"active", t.id(id[:])}
			if dates.Next() {
				words = append(words, t.when("at", int64(dates.Latest())*1000)...)
			}
			var by []string
			for k, roots := 0, a.AuthorRoots(); k < a.NumAuthors() && roots.Next(); k++ {
				if key := a.Author(k); int(roots.AuthorRoot()) == i {
					by = append(by, t.author(key[:]))
				}
			}
			words = append(words, some("by", by)...)
			t.input(words...)
		}
	case abi.InputRepeats:
		r := v.Repeats()
		t.input("repeats", r.Relay, fmt.Sprint(r.Events))
	}
}

// world writes an init, or a part of one.
func (t *transcript) world(w abi.StepInitView) {
	if w.Part == 0 {
		t.input("seed", fmt.Sprint(w.Seed))
		l := w.Limits
		t.input("limits connections", fmt.Sprint(l.Connections), "subscriptions", fmt.Sprint(l.Subscriptions), "filters", fmt.Sprint(l.Filters),
			"values", fmt.Sprint(l.Values), "historics", fmt.Sprint(l.Historics), "timers", fmt.Sprint(l.Timers), "actions", fmt.Sprint(l.Actions), "bytes", fmt.Sprint(l.Bytes))
		var own []string
		for it := w.Own(); it.Next(); {
			own = append(own, string(it.Text()))
		}
		if len(own) > 0 {
			t.input(append([]string{"own"}, own...)...)
		}
	}
	for it := w.Relays(); it.Next(); {
		r := it.Relay()
		words := []string{"relay", r.URL}
		for word, set := range map[string]bool{"bootstrap": r.Bootstrap, "wanted": r.Wanted, "connected": r.Connected} {
			if set {
				words = append(words, word)
			}
		}
		slices.Sort(words[2:])
		for subs := r.Subscriptions(); subs.Next(); {
			words = append(words, "sub", subs.Subscription().ID)
		}
		for historics := r.Historics(); historics.Next(); {
			words = append(words, "historic", historics.Historic().ID)
		}
		t.input(append(words, capabilities(&r.Capabilities)...)...)
	}
	for it := w.Repositories(); it.Next(); {
		r := it.Repository()
		words := []string{"repo", t.address(r.Address)}
		if r.Level == abi.SyncLevelState {
			words = append(words, "level", "state")
		}
		words = append(words, some("relays", texts(r.Relays()))...)
		var roots []string
		for i := range r.NumRoots() {
			id := r.Root(i)
			roots = append(roots, t.id(id[:]))
		}
		var authors []string
		for i := range r.NumAuthors() {
			key := r.Author(i)
			authors = append(authors, t.author(key[:]))
		}
		words = append(words, some("roots", roots)...)
		t.input(append(words, some("authors", authors)...)...)
	}
	if !w.More {
		t.input("init")
	}
}

func (t *transcript) event(e abi.LocalEventView) {
	words := append([]string{"event", fmt.Sprint(e.Kind)}, t.addresses(e.Repositories())...)
	words = append(words, "id", t.id(e.ID))
	words = append(words, some("relays", texts(e.Relays()))...)
	if e.Level == abi.SyncLevelState {
		words = append(words, "level", "state")
	}
	if e.Origin == abi.OriginSync {
		words = append(words, some("from", []string{e.Relay})...)
	}
	t.input(append(words, t.when("at", e.CreatedAt*1000)...)...)
}

func (t *transcript) done(d abi.HistoricDone) {
	words := []string{"done", d.Relay, d.ID}
	if d.Method == abi.MethodREQ {
		words = append(words, "req")
	}
	if !d.Complete {
		words = append(words, "incomplete", className(d.Class))
	}
	for _, n := range []struct {
		name  string
		value uint64
	}{{"need", uint64(d.Need)}, {"new", uint64(d.New)}, {"kept", uint64(d.Kept)}, {"have", uint64(d.Have)}, {"sent", uint64(d.Sent)}, {"letter", uint64(d.OtherLetter)}} {
		words = append(words, number(n.name, n.value)...)
	}
	t.input(append(words, t.when("oldest", d.MinCreatedAt*1000)...)...)
}

// action writes an action as a story has it, and reports whether it has it at all.
func (t *transcript) action(a *abi.StepAction) (string, bool) {
	if !shows(a) {
		return "", false
	}
	for i := range a.Filters {
		f := &a.Filters[i]
		for k, key := range f.Authors {
			if b, err := hex.DecodeString(t.author(key[:])); err == nil && len(b) == 2 {
				f.Authors[k] = [32]byte{b[0], b[1]}
			}
		}
		for k := range f.Tags {
			for n, value := range f.Tags[k].Values {
				if name := t.names[value]; len(value) == 64 && len(name) == 4 {
					value = name + zeros
				}
				f.Tags[k].Values[n] = t.address(value)
			}
		}
	}
	for key := range t.keys {
		a.Reason = strings.ReplaceAll(a.Reason, key, t.names[key])
	}
	return style{story: true, start: t.begun}.line(a), true
}

// when writes a time, unless there is none.
func (t *transcript) when(name string, at int64) []string {
	if at == 0 {
		return nil
	}
	return []string{name, t.since(at)}
}

func number(name string, n uint64) []string {
	if n == 0 {
		return nil
	}
	return []string{name, fmt.Sprint(n)}
}

// some writes a list, unless it is empty.
func some(name string, list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return append([]string{name}, list...)
}

func texts(it abi.BytesIter) (list []string) {
	for it.Next() {
		list = append(list, string(it.Text()))
	}
	return list
}

func className(class uint32) string {
	for name, c := range classes {
		if c == class {
			return name
		}
	}
	return "other"
}

func capabilities(c *abi.Capabilities) (words []string) {
	switch c.Negentropy {
	case abi.SupportYes:
		words = append(words, "negentropy", "yes")
	case abi.SupportNo:
		words = append(words, "negentropy", "no")
	}
	if c.AuthRequired {
		words = append(words, "auth")
	}
	for _, n := range []struct {
		name  string
		value uint32
	}{
		{"max_subscriptions", c.MaxSubscriptions}, {"max_filters", c.MaxFilters}, {"max_limit", c.MaxLimit}, {"max_message", c.MaxMessage},
		{"max_values", c.MaxValues},
	} {
		words = append(words, number(n.name, uint64(n.value))...)
	}
	return words
}
