// Command trust is a policy by follow lists. It knows the authors within some hops of given ones,
// the anchors, by the follow lists (kind 3) that are stored here. It refuses all others. The
// authors that an anchor follows are one hop away, those that they follow two hops.
//
// Members of the set "members" are always known. Without anchors, trust decides nothing.
//
// A follow list counts only if it is stored here. A known author can add thousands of authors by
// following them. So configure few hops, and anchors that do not follow everybody back. The first
// 3,000 tags of a list count.
//
// The authors are read from the store piece by piece, a few lists with each event,
// and kept in the memory of each instance of the module until it is time to read
// them again. Until the lists are read for the first time, an author who was not
// found yet is asked to try again. A decision allocates nothing but while it reads.
package main

import (
	_ "embed"
	"runtime"
	"strconv"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(trust))

func main() {}

// members is the set of those who are known without a follow list.
const members = "members"

type trust struct {
	circle       circle
	only, except *kinds.Set

	known, unknown, notReady policy.Verdict
}

func (t *trust) Configure(cfg policy.Config) (err error) {
	var anchors []policy.PubKey
	for _, text := range cfg.Strings("anchors") {
		key, err := policy.ParsePubKey(text)
		if err != nil {
			return policy.WrongValue("anchors", text, "an npub or 64 hex digits; "+err.Error())
		}
		anchors = append(anchors, key)
	}
	if t.only, err = kinds.Parse(cfg, "kinds"); err != nil {
		return err
	}
	if t.except, err = kinds.Parse(cfg, "except_kinds"); err != nil {
		return err
	}
	hops := cfg.Int("hops")
	t.circle = newCircle(anchors, int(hops), int(cfg.Int("max_authors")), int(cfg.Int("min_followers")), 60*cfg.Int("refresh_minutes"))

	runtime.GC() // now: in a decision it would take half of the budget

	t.known, t.unknown = policy.Pass(), policy.Pass()
	if cfg.String("known") == "accept" {
		t.known = policy.Accept().By("known")
	}
	if cfg.String("unknown") == "reject" {
		away := "1 follow"
		if hops > 1 {
			away = strconv.FormatInt(hops, 10) + " follows"
		}
		t.unknown = policy.Reject("restricted", "this author is more than "+away+" away from the people that this relay is for").By("unknown")
	}
	t.notReady = policy.Reject("error", "the follow lists of this relay are being read, try again in a moment").By("not-ready")
	return nil
}

// Idle returns admit if there are no anchors.
func (t *trust) Idle() []string {
	if len(t.circle.anchors) > 0 {
		return nil
	}
	return []string{"admit"}
}

// Describe says that only some may write, if others are refused.
func (t *trust) Describe() (d policy.Description) {
	if len(t.circle.anchors) > 0 && t.unknown.Action != policy.ActionPass {
		d.Writes = policy.WritesRestricted
	}
	return d
}

// Admit judges authors. Events of an import are the operator's own choice.
func (t *trust) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	kind := event.Kind()
	if len(t.circle.anchors) == 0 || in.Origin() == policy.FromImport || t.only != nil && !t.only.Has(kind) || t.except.Has(kind) {
		return policy.Pass()
	}
	if t.circle.advance(in) {
		in.Gauge("authors", float64(t.circle.size()))
	}
	author := event.Author()
	if t.circle.has(author) {
		return t.known
	}
	if yes, _ := in.PubKeyInSet(members, *author); yes {
		return t.known
	}
	if !t.circle.ready && t.unknown.Action != policy.ActionPass {
		return t.notReady
	}
	return t.unknown
}
