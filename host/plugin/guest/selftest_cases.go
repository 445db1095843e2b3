package guest

import (
	"fmt"
	"strings"
	"sync"

	"talon/host"
	"talon/host/memfacts"
	"talon/sdk/abi/manifest"
)

// selfTest is one request of a self-test.
type selfTest struct {
	name     string
	function Func
	request  []byte
	now      int64
	facts    host.Facts

	vector *manifest.Vector // nil: a probe of the host's
	config []byte           // of the vector
	sets   Sets             // of the vector

	decode func(answer []byte) error // of a reducer
}

// selfTests returns the probes for the functions of the module, then its vectors.
func (m *Module) selfTests(sets Sets) ([]*selfTest, error) {
	var tests []*selfTest
	for _, f := range m.functions {
		for _, p := range probes()[f] {
			tests = append(tests, &selfTest{
				name: fmt.Sprintf("probe %q", p.name), function: f, request: p.request, decode: p.decode,
				now: manifest.VectorNow, facts: new(memfacts.Facts), sets: sets,
			})
		}
	}
	for i := range m.manifest.Vectors {
		v := &m.manifest.Vectors[i]
		request, err := v.Request()
		if err != nil {
			return nil, err
		}
		settings, err := m.manifest.Resolve(v.Config)
		if err != nil {
			return nil, fmt.Errorf("vector %q: %w", v.Name, err)
		}
		test := &selfTest{
			name: fmt.Sprintf("vector %q", v.Name), request: request, now: v.Now, facts: memfacts.New(VectorEvents(v.Stored), VectorEvents(v.Held)),
			vector: v, config: encodeConfig(settings, host.Service(v.At())), sets: VectorSets(v.Sets),
		}
		for _, f := range m.functions {
			if f.String() == v.Function {
				test.function = f
			}
		}
		if !v.Policy() {
			test.decode = v.ReadAnswer
		}
		tests = append(tests, test)
	}
	return tests, nil
}

// probe is a request that any module must be able to answer.
type probe struct {
	name    string
	request []byte
	decode  func(answer []byte) error
}

// probes are what each function is asked: what is usual, and what is large or
// empty.
var probes = sync.OnceValue(func() (list [functions][]probe) {
	const now = manifest.VectorNow
	event := func(name string, kind host.Kind, content string, tags host.Tags) {
		e := &host.Event{ID: host.ID{1}, PubKey: host.PubKey{2}, Sig: host.Sig{3}, CreatedAt: now, Kind: kind, Content: content, Tags: tags}
		for _, f := range []Func{Admit, Audience} {
			list[f] = append(list[f], probe{name: name, request: new(Request).Admit(&host.Item{Event: e}, now)})
		}
	}
	key := host.PubKey{4}
	event("a note", 1, "hello", host.Tags{{"e", host.ID{5}.String(), "wss://relay.example.com", "root"}, {"p", key.String()}, {"t", "nostr"}})
	event("a large event", 30023, strings.Repeat("größe and more ", 4<<10), host.Tags{{"d", "large"}, {"title", "Large"}})
	follows := make(host.Tags, 1000)
	for i := range follows {
		key[31], key[30] = byte(i), byte(i>>8)
		follows[i] = host.Tag{"p", key.String()}
	}
	event("a replaceable event with many tags", 3, "", follows)
	event("an empty event", 1, "", nil)

	client := &host.Client{Authed: []host.PubKey{key}, UserAgent: "probe", Path: "/"}
	one := func(f Func, name string, request []byte) {
		list[f] = append(list[f], probe{name: name, request: request})
	}
	one(Query, "a query", new(Request).Query(&host.Query{Client: client, Filters: []host.Filter{
		{Kinds: []host.Kind{1}, Limit: 20},
		{Authors: []host.PubKey{key}, Tags: []host.TagFilter{{Name: 't', Values: []string{"nostr"}}}, Limit: -1},
	}}, now))
	one(Query, "a query without a condition", new(Request).Query(&host.Query{Client: client, Filters: []host.Filter{{Limit: -1}}}, now))
	one(Connect, "a connection", new(Request).Connect(&host.Connection{Client: *client, Open: 10, FromAddr: 1}, now))
	one(Push, "a push", new(Request).Push(&host.Push{
		Client: client, Repo: host.Address{Kind: announcement, PubKey: key, D: "probe"}, Maintainers: []host.PubKey{key},
		Updates: []host.RefUpdate{{Ref: "refs/heads/main", Old: strings.Repeat("0", 40), New: strings.Repeat("a", 40)}},
		Bytes:   1000, Stored: 1_000_000,
	}, now))
	reducerProbes(&list)
	return list
})

// recording repeats its first answer to a question. So a change of a set during the test
// does not look like a difference of engines.
type recording struct {
	sets Sets // nil: there are none

	mu      sync.Mutex // guards the field below
	answers map[[2]string][2]bool
}

func (r *recording) Contains(name, member []byte) (yes, known bool) {
	if r.sets == nil {
		return false, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	question := [2]string{string(name), string(member)}
	if a, ok := r.answers[question]; ok {
		return a[0], a[1]
	}
	if r.answers == nil {
		r.answers = make(map[[2]string][2]bool)
	}
	yes, known = r.sets.Contains(name, member)
	r.answers[question] = [2]bool{yes, known}
	return yes, known
}
