package throttle

import (
	"slices"
	"strconv"
	"strings"
)

// DomainLimits are what requests to one domain keep to.
type DomainLimits struct {
	AtOnce    uint32 // in flight
	PerMinute int    // starts in any minute; 0: no limit
}

// Window is what starts are counted in: a little more than a minute, since
// requests do not all take the same time to arrive.
const Window = Minute + Second

// MostPerMinute is the highest limit of starts that there can be: the host tells of
// as many (abi.MaxAges).
const MostPerMinute = 256

// Admit lets a request to the domain start as soon as the limits and what After
// said before allow it.
func (l DomainLimits) Admit(in AdmitInput) AdmitAnswer {
	if left := in.Subject.NotBefore - in.Now; left > 0 {
		return Wait(left)
	}
	if in.Subject.InFlight >= l.AtOnce {
		return WaitForEnd()
	}
	if l.PerMinute > 0 {
		if wait := UntilFree(&in.Subject, l.PerMinute, Window); wait > 0 {
			return Wait(wait)
		}
	}
	return Start()
}

// Domains are the limits of all domains: the usual ones, and those of some.
type Domains struct {
	usual DomainLimits
	own   []ownLimits // by name
}

type ownLimits struct {
	name   string
	limits DomainLimits
}

// ParseDomains reads entries of the form domain=at once,per minute, such as
// git.example.com=10,60 or localhost:8080=2,0, where 0 a minute is no limit. An
// error names the key of the configuration.
func ParseDomains(key string, entries []string, usual DomainLimits) (Domains, error) {
	d := Domains{usual: usual}
	for _, entry := range entries {
		name, numbers, _ := strings.Cut(entry, "=")
		first, second, ok := strings.Cut(numbers, ",")
		atOnce, err := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
		ok = ok && err == nil && atOnce > 0
		perMinute, err := strconv.ParseUint(strings.TrimSpace(second), 10, 16)
		ok = ok && err == nil && perMinute <= MostPerMinute
		name = strings.ToLower(strings.TrimSuffix(strings.TrimSpace(name), "."))
		if !ok || name == "" || strings.ContainsAny(name, "/ @") {
			return Domains{}, WrongValue(key, entry, "domain=at once,per minute, such as git.example.com=10,60")
		}
		d.own = append(d.own, ownLimits{name, DomainLimits{uint32(atOnce), int(perMinute)}})
	}
	slices.SortFunc(d.own, func(a, b ownLimits) int { return strings.Compare(a.name, b.name) })
	for i := range d.own {
		if i > 0 && d.own[i].name == d.own[i-1].name {
			return Domains{}, WrongValue(key, d.own[i].name, "each domain once")
		}
	}
	return d, nil
}

// Of returns the limits of a domain.
func (d *Domains) Of(name string) DomainLimits {
	if i, ok := slices.BinarySearchFunc(d.own, name, func(o ownLimits, name string) int { return strings.Compare(o.name, name) }); ok {
		return d.own[i].limits
	}
	return d.usual
}

// InTurn picks the first of those that wait: the host names them in the order in
// which they were served, longest ago first, so that all get their turn. Who compares
// LastTried instead lets those who have just come overtake.
func InTurn(PickInput) PickAnswer { return Next(0) }
