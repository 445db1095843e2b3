// Command conformance says everything that it is told and finds out, so that SDKs can
// be compared: the same module in each language must pass the vectors of the manifest.
package main

import (
	_ "embed"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"talon/sdk/nip19"
	"talon/sdk/policy"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(conformance))

func main() {}

type conformance struct{ settings string }

func (c *conformance) Configure(cfg policy.Config) error {
	if cfg.String("text") == "wrong" {
		return policy.WrongValue("text", "wrong", "another")
	}
	var l line
	l.add(" text=", cfg.String("text")).add(" n=").num(cfg.Int("n")).add(" on=").flag(cfg.Bool("on")).add(" f=").num(int64(cfg.Float("f") * 10))
	l.add(" list=")
	for _, s := range cfg.Strings("list") {
		l.add(s, ",")
	}
	l.add(" ints=")
	for _, n := range cfg.Ints("ints") {
		l.num(n).add(",")
	}
	l.add(" at=", cfg.Service().Domain).add(" prs=").flag(cfg.Service().PRs).add(" operator=")
	if key := cfg.Service().Operator; key != ([32]byte{}) {
		l.add(nip19.EncodeNpub(key), ",", hex.EncodeToString(key[:]))
	}
	l.add(" key=")
	if key, err := nip19.ParsePubKey(cfg.String("text")); err == nil {
		l.add(hex.EncodeToString(key[:]))
	}
	c.settings = l.String()
	return nil
}

func (c *conformance) Describe() policy.Description {
	return policy.Description{
		Grasps: []string{"GRASP-01", "GRASP-06"}, Criteria: "everything", Curation: "nothing", Writes: policy.WritesRestricted,
		Limits: policy.Limitation{
			MaxContentLength: 70_000, MaxEventTags: 300, CreatedAtLowerLimit: 1, CreatedAtUpperLimit: 900, MinPowDifficulty: 20, AuthRequired: true,
		},
	}
}

func (c *conformance) Admit(in policy.Input) policy.Verdict {
	var l line
	event := in.Event()
	if event.Kind() == 16 {
		return policy.Hold("waits").By("waits").Awaiting(policy.Filter{
			Authors: []policy.PubKey{event.PubKey()}, Kinds: []int{7}, Tags: []policy.TagFilter{{Name: "p", Values: []string{event.Content()}}}, Since: 5,
		}, 3600)
	}
	l.add("kind=").num(int64(event.Kind())).add(" at=").num(event.CreatedAt()).add(" origin=").num(int64(in.Origin()))
	l.add(" address=", in.Address(), " relay=", in.Relay(), " now=").num(in.Now()).add(" authed=")
	for it := in.Keys(); it.Next(); {
		l.num(int64(it.Key()[0])).add(",")
	}
	l.add(" tags=")
	for it := event.Tags(); it.Next(); {
		l.add(it.Name(), ":", it.Value(), ":").num(int64(it.Tag().Len())).add(",")
	}
	d, ok := event.Tag("d")
	l.add(" d=").num(int64(len(d))).flag(ok)

	l.add(" get=")
	if e, ok := in.Get(event.ID()); ok {
		l.add(e.Content())
	}
	l.add(" held=")
	if e, ok := in.Held(event.ID()); ok {
		l.add(e.Content())
	}
	l.add(" query=")
	found := in.Query(policy.Filter{
		Authors: []policy.PubKey{event.PubKey()}, Kinds: []int{1}, Tags: []policy.TagFilter{{Name: "t", Values: []string{event.Content()}}},
		Since: 5, Until: 2_000_000_000, Limit: 10,
	})
	for found.Next() {
		l.add(found.Event().Content(), ",")
	}
	l.flag(found.More()).add(" queryheld=")
	for found := in.QueryHeld(policy.Filter{IDs: []policy.ID{event.ID()}}); found.Next(); {
		l.num(int64(found.Event().ID()[0])).add(",")
	}
	l.add(" there=")
	address := []policy.TagFilter{{Name: policy.ByAddress, Values: []string{"30023:0800000000000000000000000000000000000000000000000000000000000000:x"}}}
	for found := in.Query(policy.Filter{Tags: address, Header: true}); found.Next(); {
		l.num(int64(found.Event().ID()[0])).add(found.Event().Content(), ",")
	}
	l.add(" referenced=").flag(in.Referenced(event.Content()))

	l.add(" set=").flag(in.KVSet("k", []byte(event.Content()), 60)).add(" kv=")
	value, _ := in.KVGet("k")
	l.add(string(value))
	in.KVDelete("k")
	_, ok = in.KVGet("k")
	l.add(" there=").flag(ok)
	in.KVIncr("n", 5, 0)
	l.add(" n=").num(in.KVIncr("n", -7, 0))
	l.add(" take=")
	for _, n := range []int{1, 1, 2} {
		wait, _ := in.Take("b", n, 1, 1500*time.Millisecond)
		l.num(max(wait.Milliseconds(), -1)).add(",")
	}
	yes, known := in.PubKeyInSet("friends", event.PubKey())
	l.add(" friend=").flag(yes).flag(known)
	yes, known = in.InSet("nobody", "x")
	l.flag(yes).flag(known)
	l.add(" git=").flag(in.GitHas("30617:x:y", "")).add(" ref=")
	ref, _ := in.GitRef("30617:x:y", "refs/heads/main")
	l.add(ref)
	in.Log(policy.Info, "conformance")
	in.Count("events", 1)
	in.Gauge("size", 2)
	l.add(c.settings)
	return policy.Reject("blocked", l.String()).By("admit").RetryFor(90)
}

func (c *conformance) Query(in policy.QueryInput) policy.Verdict {
	var l line
	l.client(in.Client()).add(" verb=").num(int64(in.Verb())).add(" now=").num(in.Now())
	for it := in.Filters(); it.Next(); {
		f := it.Filter()
		l.add(" filter ids=")
		for it := f.IDs(); it.Next(); {
			l.num(int64(it.Key()[0])).add(",")
		}
		l.add(" authors=")
		for it := f.Authors(); it.Next(); {
			l.num(int64(it.Key()[0])).add(",")
		}
		l.add(" kinds=")
		for it := f.Kinds(); it.Next(); {
			l.num(int64(it.Kind())).add(",")
		}
		l.add(" tags=")
		for it := f.Tags(); it.Next(); {
			l.add(it.Name(), ":")
			for values := it.Values(); values.Next(); {
				l.add(values.Text(), ",")
			}
		}
		since, has := f.Since()
		l.add(" since=").num(since).flag(has)
		until, has := f.Until()
		l.add(" until=").num(until).flag(has)
		limit, has := f.Limit()
		l.add(" limit=").num(int64(limit)).flag(has)
	}
	return policy.RequireAuth(l.String()).By("query")
}

func (c *conformance) Connect(in policy.ConnectInput) policy.Verdict {
	if in.Client().Path() == "/long" {
		return policy.Reject("restricted", in.Client().UserAgent()).By("connect")
	}
	var l line
	l.client(in.Client()).add(" open=").num(int64(in.Open())).add(" here=").num(int64(in.FromAddress())).add(" now=").num(in.Now())
	return policy.Reject("restricted", l.String()).By("connect")
}

func (c *conformance) Push(in policy.PushInput) policy.Verdict {
	var l line
	l.client(in.Client()).add(" repo=", in.Repo(), " maintainers=")
	for it := in.Maintainers(); it.Next(); {
		l.num(int64(it.Key()[0])).add(",")
	}
	for it := in.Updates(); it.Next(); {
		u := it.Update()
		l.add(" ", u.Ref, ":", u.Old, ":", u.New)
	}
	l.add(" bytes=").num(in.Bytes()).add(" stored=").num(in.Stored()).add(" prs=").flag(in.PRs()).add(" now=").num(in.Now())
	return policy.Reject("blocked", l.String()).By("push")
}

type line struct{ strings.Builder }

func (l *line) add(parts ...string) *line {
	for _, p := range parts {
		l.WriteString(p)
	}
	return l
}

func (l *line) num(n int64) *line { return l.add(strconv.FormatInt(n, 10)) }

func (l *line) flag(yes bool) *line {
	if yes {
		return l.num(1)
	}
	return l.num(0)
}

func (l *line) client(c policy.Client) *line {
	l.add("address=", c.Address(), " agent=", c.UserAgent(), " origin=", c.Origin(), " path=", c.Path(), " authed=")
	for it := c.Keys(); it.Next(); {
		l.num(int64(it.Key()[0])).add(",")
	}
	return l
}
