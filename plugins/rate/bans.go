package main

import (
	"time"

	"talon/sdk/policy"
)

// bans bar addresses for a time that go on after many refusals. The zero value bars nobody.
type bans struct {
	seconds int64
	after   int           // refusals in a minute
	every   time.Duration // one of them is forgotten
	refusal policy.Verdict
}

func newBans(seconds, after int64) bans {
	if seconds == 0 {
		return bans{}
	}
	length := inUnits(int(seconds), "second")
	if seconds%60 == 0 {
		length = inUnits(int(seconds/60), "minute")
	}
	text := "your address is banned for " + length + ", since it goes on after " + inUnits(int(after), "refusal") + " in a minute"
	return bans{
		seconds: seconds, after: int(after), every: max((time.Minute / time.Duration(after)).Round(time.Millisecond), time.Millisecond),
		refusal: policy.Reject("rate-limited", text).By("address-ban").Ending(),
	}
}

func (b *bans) off() bool { return b.seconds == 0 }

// has reports whether an address is banned. A known person with a proven key is not.
func (b *bans) has(facts policy.Facts, who *holder) bool {
	if b.off() || !who.isNetwork() {
		return false
	}
	_, banned := facts.KVGet(facts.Key("ban:", string(who.name())))
	return banned
}

// count counts a refusal of an address. It returns the refusal, or that of the ban which begins.
// If the module has no room, no ban begins.
func (b *bans) count(facts policy.Facts, who *holder, refusal policy.Verdict) policy.Verdict {
	if b.off() || !who.isNetwork() {
		return refusal
	}
	if _, ok := facts.Take(facts.Key("refusals:", string(who.name())), 1, b.after, b.every); ok {
		return refusal
	}
	if !facts.KVSet(facts.Key("ban:", string(who.name())), []byte{1}, b.seconds) {
		return refusal
	}
	return b.refusal
}
