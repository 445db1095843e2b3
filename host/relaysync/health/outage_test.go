package health

import (
	"fmt"
	"testing"
	"time"

	"talon/host/relaysync/loop"
	"talon/host/relaysync/relaysynctest"
	rules "talon/sdk/throttle"
)

// outage is a relay that is away for a time, in a simulation of the loop's attempts.
type outage struct {
	outcome   loop.Outcome
	status    int
	attempt   time.Duration // until one has failed
	uptime    time.Duration // before the outage
	length    time.Duration
	bootstrap bool
}

// outageResult is what came of it.
type outageResult struct {
	late      time.Duration // from its end to the connection
	attempts  int           // in all
	hour      int           // in the first hour
	barred    bool          // at some time
	dead      bool
	firstWait time.Duration // of the first bar
}

// simulate connects to a relay, loses it, and tries until it is back.
func (o outage) simulate(t *testing.T, r rules.Relays) (res outageResult) {
	k := open(t, &ruled{r}, new(relaysynctest.Memory))
	if o.bootstrap {
		k.Bootstrap(relay)
	}
	at := start.UnixMilli()
	if o.uptime > 0 {
		k.Allow(relay, at)
		k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK}, at)
		at += o.uptime.Milliseconds()
		k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK, Productive: true}, at)
		at += max(k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeDisconnected, Productive: true}, at).Wait, 250)
	}
	begin := at - 250
	if o.uptime == 0 {
		begin = at
	}
	end := begin + o.length.Milliseconds()
	failing, took := int64(0), int64(0)
	if o.uptime > 0 {
		took = 200 // the attempt before the outage
	}
	for {
		if wait := k.Allow(relay, at); wait > 0 {
			at += wait
			continue
		}
		if at >= end {
			res.late = time.Duration(at-end) * time.Millisecond
			return res
		}
		res.attempts++
		if at-begin < time.Hour.Milliseconds() {
			res.hour++
		}
		lasts := o.attempt.Milliseconds()
		if within := loop.AttemptTime(failing, took); within > 0 {
			lasts = min(lasts, within)
		}
		at += lasts
		st := k.Report(relay, loop.ConnResult{Outcome: o.outcome, Status: o.status}, at)
		if st.Barred && !res.barred {
			res.barred, res.firstWait = true, time.Duration(st.Wait)*time.Millisecond
		}
		failing = st.Failing
		res.dead = res.dead || st.Status == loop.StatusDead
		at += max(st.Wait, 250)
	}
}

// A relay that is away is found again soon after it is back, whatever its absence looks
// like, and is not barred for one failure. TestOutages -v shows what that costs the relay.
func TestOutages(t *testing.T) {
	const second, minute, hour, day = rules.Second, rules.Minute, rules.Hour, rules.Day
	throttles := map[string]rules.Relays{
		"polite": {First: 5 * second, Max: hour, Stable: 10 * second, DeadAfter: day, DeadEvery: day, Limited: 65 * second, Barred: 12 * hour, EagerFrom: hour, AtOnce: 10},
		"eager":  {First: second, Max: minute, Stable: second, DeadAfter: day, DeadEvery: minute, Limited: minute, Barred: minute, EagerFrom: hour, AtOnce: 10},
	}
	kinds := map[string]outage{
		"refused":      {outcome: loop.OutcomeUnreachable, attempt: 50 * time.Millisecond},
		"no such name": {outcome: loop.OutcomeDNS, attempt: 50 * time.Millisecond},
		"certificate":  {outcome: loop.OutcomeTLS, attempt: 100 * time.Millisecond},
		"redirect":     {outcome: loop.OutcomeProtocol, status: 302, attempt: 100 * time.Millisecond},
		"web page":     {outcome: loop.OutcomeProtocol, status: 200, attempt: 100 * time.Millisecond},
		"bad gateway":  {outcome: loop.OutcomeServer, status: 502, attempt: 100 * time.Millisecond},
		"silence":      {outcome: loop.OutcomeTimeout, attempt: 20 * time.Second},
	}
	lengths := []time.Duration{
		time.Second, 15 * time.Second, 33 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
		3 * time.Hour, 14 * time.Hour, 23 * time.Hour, 40 * time.Hour,
	}
	for name, r := range throttles {
		for kind, o := range kinds {
			for _, uptime := range []time.Duration{0, 2 * time.Hour, 200 * time.Hour} {
				for _, bootstrap := range []bool{false, true} {
					row := fmt.Sprintf("%-6s %-12s up %4.0fh:", name, kind, uptime.Hours())
					for _, o.length = range lengths {
						o.uptime, o.bootstrap = uptime, bootstrap
						res := o.simulate(t, r)
						what := fmt.Sprintf("%s, %s, up %v, away %v, bootstrap %v: %+v", name, kind, uptime, o.length, bootstrap, res)
						row += fmt.Sprintf(" %v+%v", o.length, res.late.Round(time.Second))
						check(t, what, o, r, res)
						if o.length == lengths[len(lengths)-1] {
							row += fmt.Sprintf("; %d attempts in the first hour, %d in all", res.hour, res.attempts)
						}
					}
					if !bootstrap {
						t.Log(row)
					}
				}
			}
		}
	}
}

// check fails the test if the relay was found too late, or was barred too soon.
func check(t *testing.T, what string, o outage, r rules.Relays, res outageResult) {
	t.Helper()
	most := 10 * time.Second
	if o.uptime == 0 || o.length > 10*time.Minute {
		most += o.attempt
	}
	wait := time.Duration(r.Max) * time.Millisecond
	switch {
	case o.uptime >= time.Hour && o.length <= time.Minute:
	case o.uptime >= time.Hour && o.length <= 10*time.Minute:
		most += o.length / 4
	case res.dead:
		most = 25 * time.Hour
	case res.barred:
		most += min(o.length, time.Duration(r.Barred)*time.Millisecond, 12*time.Hour)
	default:
		most += min(o.length, wait)
	}
	if res.late > most {
		t.Errorf("%s: want it within %v", what, most)
	}
	if res.hour > 100 && r.First >= 5*rules.Second {
		t.Errorf("%s: too many attempts", what)
	}
	fault := fault(o.outcome)
	if res.barred && (o.bootstrap || !fault || o.length < 10*time.Minute) {
		t.Errorf("%s: it is barred", what)
	}
	if !res.barred && fault && !o.bootstrap && o.length >= 30*time.Minute && r.Barred > rules.Minute {
		t.Errorf("%s: it is never barred", what)
	}
	if res.firstWait > 30*time.Minute {
		t.Errorf("%s: the first bar is too long", what)
	}
	if res.dead != (o.length > 24*time.Hour) {
		t.Errorf("%s: dead is wrong", what)
	}
}

// A relay that works, and breaks the rules again and again, is left alone for longer each
// time, and is barred only after that. A connection of ten minutes ends the row.
func TestBreaksRulesAgain(t *testing.T) {
	r := rules.Relays{First: 5000, Max: 3600_000, Stable: 10_000, DeadAfter: rules.Day, DeadEvery: rules.Day, Barred: 12 * rules.Hour, EagerFrom: rules.Hour}
	for _, lasts := range []time.Duration{time.Minute, 11 * time.Minute} {
		k := open(t, &ruled{r}, new(relaysynctest.Memory))
		at, barred, waits := start.UnixMilli(), 0, []int64{}
		for range 12 {
			k.Allow(relay, at)
			k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK}, at)
			at += lasts.Milliseconds()
			k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeOK, Productive: true}, at)
			st := k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeProtocol, Productive: true}, at)
			if st.Barred {
				barred++
			}
			waits = append(waits, st.Wait)
			at += st.Wait
		}
		switch growing := waits[1] == 2*waits[0] && waits[2] == 4*waits[0] && waits[11] > 10*rules.Minute; {
		case lasts < 10*time.Minute && (!growing || barred == 0 || barred > 9):
			t.Errorf("connections of %v: waits of %v ms, barred %d times", lasts, waits, barred)
		case lasts > 10*time.Minute && (barred > 0 || waits[11] > 10_000):
			t.Errorf("connections of %v: waits of %v ms, barred %d times", lasts, waits, barred)
		}
	}
}

// Records of before there were faults are read. A relay that one failure had barred is tried.
func TestOldRecords(t *testing.T) {
	d := new(relaysynctest.Memory)
	later := start.Add(11 * time.Hour).UnixMilli()
	old := fmt.Sprintf(`{"failures":1,"failing_since":%d,"not_before":%d,"health":4,"ending":"no such host"}`, start.UnixMilli(), later)
	if err := d.Save(t.Context(), map[string][]byte{relay: []byte(old), "wss://dead.example.com": []byte(fmt.Sprintf(`{"failures":40,"failing_since":5,"not_before":%d,"health":3}`, later))}); err != nil {
		t.Fatal(err)
	}
	k := open(t, &ruled{rules.Relays{First: 5000, Max: 3600_000, DeadAfter: rules.Day, DeadEvery: rules.Day, Barred: 12 * rules.Hour}}, d)
	if st := k.Get(relay, start.UnixMilli()); st.Barred || st.Wait != 0 || st.Failures != 1 || st.Status != loop.StatusDegraded {
		t.Errorf("%+v", st)
	}
	if st := k.Get("wss://dead.example.com", start.UnixMilli()); st.Status != loop.StatusDead || st.Wait == 0 {
		t.Errorf("%+v", st)
	}
	// Uptime and faults survive a restart.
	k.Report(relay, loop.ConnResult{Outcome: loop.OutcomeTLS}, start.UnixMilli())
	k.Report("wss://up.example.com", loop.ConnResult{Outcome: loop.OutcomeOK}, start.UnixMilli())
	k.countAll(start.Add(2*time.Hour).UnixMilli(), countEvery)
	k.save(t.Context())
	again := open(t, &ruled{}, d)
	if r := again.relays[relay]; r.Faults != 1 || r.FaultySince != start.UnixMilli() {
		t.Errorf("after a restart: %+v", r)
	}
	if r := again.relays["wss://up.example.com"]; r.Uptime != 2*rules.Hour {
		t.Errorf("after a restart: %+v", r)
	}
}
