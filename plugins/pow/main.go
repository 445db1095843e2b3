// Command pow is a policy of proof of work (NIP-13): how many leading zero bits the
// id of an event must have, by the class of its kind.
//
// The third item of the nonce tag must promise at least the demanded number of bits. So the id of
// an event that was made with less work does not pass by luck.
//
// Members of the set "trusted" need no work: the author, or any key that the client has proven
// (NIP-42). A decision allocates nothing.
package main

import (
	_ "embed"
	"math/bits"
	"strconv"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

//go:embed manifest.json
var manifest string

var _ = policy.Register(manifest, new(pow))

func main() {}

// trusted is the set whose members need not work.
const trusted = "trusted"

// maxBits is how many bits an id has.
const maxBits = 256

type pow struct {
	classes [kinds.NumClasses]demand
	commit  bool
}

// demand is what a class of kinds must have, with the refusals of all that is less.
type demand struct {
	bits int

	tooEasy   []policy.Verdict // by the bits that were found
	committed []policy.Verdict // by the bits that the nonce tag names
}

func newDemand(want int64) demand {
	d := demand{bits: int(want)}
	for n := range want {
		less := strconv.FormatInt(n, 10) + " is less than " + strconv.FormatInt(want, 10)
		d.tooEasy = append(d.tooEasy, policy.Reject("pow", "difficulty "+less).By("difficulty"))
		d.committed = append(d.committed, policy.Reject("pow", "the committed target "+less+" (third item of the nonce tag)").By("target"))
	}
	return d
}

func (p *pow) Configure(cfg policy.Config) error {
	demands := map[int64]demand{}
	set := func(class kinds.Class, want int64) {
		if _, ok := demands[want]; !ok {
			demands[want] = newDemand(want)
		}
		p.classes[class] = demands[want]
	}
	for class := range kinds.NumClasses {
		set(kinds.Class(class), cfg.Int("min_bits"))
	}
	p.commit = cfg.Bool("commit")
	return kinds.PerClass(cfg, "class_bits", "bits", maxBits, set)
}

// Describe states the difficulty that is enough for events of all classes.
func (p *pow) Describe() (d policy.Description) {
	for i := range p.classes {
		d.Limits.MinPowDifficulty = max(d.Limits.MinPowDifficulty, int64(p.classes[i].bits))
	}
	return d
}

// Idle returns admit while no class needs work.
func (p *pow) Idle() []string {
	for i := range p.classes {
		if p.classes[i].bits > 0 {
			return nil
		}
	}
	return []string{"admit"}
}

// Admit judges the id. Events of an import are the operator's own choice.
func (p *pow) Admit(in policy.Input) policy.Verdict {
	event := in.Event()
	want := &p.classes[kinds.ClassOf(event.Kind())]
	if want.bits == 0 || in.Origin() == policy.FromImport {
		return policy.Pass()
	}
	verdict := policy.Pass()
	if found := difficulty(event.ID()); found < want.bits {
		verdict = want.tooEasy[found]
	} else if p.commit {
		if target := target(event); target < want.bits {
			verdict = want.committed[target]
		}
	}
	if verdict.Action != policy.ActionPass && in.SenderInSet(trusted) {
		return policy.Pass()
	}
	return verdict
}

// difficulty is the number of leading zero bits.
func difficulty(id policy.ID) int {
	for i, b := range id {
		if b != 0 {
			return 8*i + bits.LeadingZeros8(b)
		}
	}
	return maxBits
}

// target is the difficulty that the first nonce tag names, 0 if it names none.
func target(event policy.Event) int {
	for it := event.Tags(); it.Next(); {
		if it.Name() == "nonce" {
			return decimal(it.Tag().Item(2))
		}
	}
	return 0
}

// decimal reads up to three digits. An error of strconv would be allocated.
func decimal(text string) (n int) {
	if len(text) > 3 {
		return 0
	}
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return 0
		}
		n = 10*n + int(digit)
	}
	return n
}
