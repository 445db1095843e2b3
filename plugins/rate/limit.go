package main

import (
	"time"

	"talon/sdk/policy"
	"talon/sdk/policy/kinds"
)

// limit is a rate with a burst. Its refusals are made when it is configured, so
// that a decision allocates nothing, least of all under attack.
type limit struct {
	burst    int
	every    time.Duration      // one token comes back
	prefix   string             // of the keys of its buckets
	refusals [61]policy.Verdict // by the seconds until a token is there
}

// newLimit returns a limit of so many a minute, and a burst, 0 for as many as in a
// minute. There is no limit where perMinute is 0.
func newLimit(perMinute, burst int64, rule, what string) limit {
	if perMinute == 0 {
		return limit{}
	}
	if burst == 0 {
		burst = perMinute
	}
	l := limit{burst: int(burst), every: (time.Minute / time.Duration(perMinute)).Round(time.Millisecond), prefix: rule + ":"}
	for seconds := range l.refusals {
		l.refusals[seconds] = policy.Reject("rate-limited", what+", try again in "+inUnits(seconds, "second")).By(rule)
	}
	return l
}

// readLimit reads the settings NAME_per_minute and NAME_burst.
func readLimit(cfg policy.Config, name, rule, what string) limit {
	return newLimit(cfg.Int(name+"_per_minute"), cfg.Int(name+"_burst"), rule, what)
}

// limits has one for each class of kinds.
type limits [kinds.NumClasses]limit

// readLimits reads the settings NAME_per_minute and NAME_burst, which name classes. A
// refusal begins with "too many", the class and events, and goes on with whose.
func readLimits(cfg policy.Config, name, rule, whose string) (list limits, err error) {
	var perMinute, burst [kinds.NumClasses]int64
	err = kinds.PerClass(cfg, name+"_per_minute", "events a minute", 6000, func(c kinds.Class, n int64) { perMinute[c] = n })
	if err == nil {
		err = kinds.PerClass(cfg, name+"_burst", "events", 1_000_000, func(c kinds.Class, n int64) { burst[c] = n })
	}
	for i := range list {
		class := kinds.Class(i).String()
		list[i] = newLimit(perMinute[i], burst[i], rule+"-"+class, "too many "+class+" events "+whose)
	}
	return list, err
}

// off reports whether there is no limit for any class.
func (l *limits) off() bool {
	for i := range l {
		if !l[i].off() {
			return false
		}
	}
	return true
}

func (l *limit) off() bool { return l.burst == 0 }

// take takes a token from the bucket of whom it is about. It returns false and a
// refusal if there is none.
func (l *limit) take(facts policy.Facts, whom []byte) (policy.Verdict, bool) {
	if l.off() {
		return policy.Pass(), true
	}
	wait, ok := facts.Take(facts.Key(l.prefix, string(whom)), 1, l.burst, l.every)
	if ok {
		return policy.Pass(), true
	}
	seconds := int((wait + time.Second - 1) / time.Second)
	return l.refusals[min(max(seconds, 1), len(l.refusals)-1)], false
}
