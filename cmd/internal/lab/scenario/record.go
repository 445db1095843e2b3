package scenario

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"talon/host"
	"talon/sdk/grasp"
)

// Recording collects statistics of a server, for a scenario like its network. It keeps
// counts and sizes: no key, name or address of anybody gets into the scenario.
type Recording struct {
	now    int64 // unix seconds
	relays map[Observed]class
	repos  map[string]int // roots, by address
	owners map[host.PubKey]bool
	listed []int // relays that each repository lists
	sizes  []int // of texts
	oldest int64
	total  kinds
	recent kinds // of the last days
}

// Observed is what the server knows of a relay.
type Observed struct {
	Bootstrap     bool
	Dead          bool
	Negentropy    bool
	Auth          bool
	Subscriptions uint32 // limits, 0: none is known
	Filters       uint32
	Limit         uint32
	Message       uint32
}

type kinds struct{ roots, comments, states, edits, deletions int }

// class is how many relays look the same, and how many repositories name them.
type class struct{ relays, repositories int }

// recordDays is over how many days rates are taken.
const recordDays = 30

// NewRecording returns a recording that begins at a time, in unix seconds.
func NewRecording(now int64) *Recording {
	return &Recording{now: now, relays: map[Observed]class{}, repos: map[string]int{}, owners: map[host.PubKey]bool{}}
}

// Relay adds a relay that repositories name.
func (r *Recording) Relay(o Observed, repositories int) {
	c := r.relays[o]
	r.relays[o] = class{c.relays + 1, c.repositories + repositories}
}

// Event adds a stored event.
func (r *Recording) Event(e *host.Event) {
	count := func(of func(*kinds) *int) {
		*of(&r.total)++
		if e.CreatedAt > r.now-recordDays*24*3600 {
			*of(&r.recent)++
		}
	}
	switch e.Kind {
	case grasp.KindAnnouncement:
		count(func(k *kinds) *int { return &k.edits })
		r.owners[e.PubKey] = true
		if a, ok := e.Address(); ok {
			r.repos[a.String()] += 0
		}
		for _, tag := range e.Tags {
			if len(tag) > 1 && tag[0] == "relays" {
				r.listed = append(r.listed, len(tag)-2) // without this server
			}
		}
		return
	case grasp.KindState:
		count(func(k *kinds) *int { return &k.states })
		return
	case grasp.KindIssue, grasp.KindPatch, grasp.KindPullRequest:
		count(func(k *kinds) *int { return &k.roots })
		for _, tag := range e.Tags {
			if len(tag) > 1 && tag[0] == "a" {
				r.repos[tag[1]]++
			}
		}
	case host.KindDeletion:
		count(func(k *kinds) *int { return &k.deletions })
		return
	default:
		count(func(k *kinds) *int { return &k.comments })
	}
	if len(r.sizes) < 100_000 {
		r.sizes = append(r.sizes, len(e.Content))
	}
	if r.oldest == 0 || e.CreatedAt < r.oldest {
		r.oldest = e.CreatedAt
	}
}

// Text writes the scenario.
func (r *Recording) Text() []byte {
	var b bytes.Buffer
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("description = %q", "recorded from a server")
	line("duration = \"1d\"\nquiet = \"3h\"")
	relays, named, listable := 0, 0, 0
	for _, c := range r.relays {
		relays += c.relays
		named += c.repositories
		if c.repositories > 0 {
			listable += c.relays
		}
	}
	if relays > 20 || len(r.repos) > 200 {
		line(`level = "model"`)
	}
	line("\n# Latencies and outages are not known: they are as the defaults have them. Where you know more, say so\n# in a class, such as latency-ms = 80, outage-every = \"6h\", rate = 60.")
	bootstrap := false
	for i, o := range slices.SortedFunc(maps.Keys(r.relays), compareObserved) {
		c := r.relays[o]
		line("\n[relays.class-%d]\ncount = %d", i, c.relays)
		if o.Bootstrap {
			line("bootstrap = %d", c.relays)
			bootstrap = true
		}
		if named > 0 { // else they are all alike
			line("weight = %s", short(float64(c.repositories*relays)/float64(c.relays*named)))
		}
		if o.Dead {
			line("profile = \"dead\"")
		} else if keys := o.keys(); keys != "" {
			line("keys = '''\n%s'''", keys)
		}
	}
	if !bootstrap {
		line("\n# There was no bootstrap relay.\n[relays.index]\ncount = 1\nbootstrap = 1")
		relays++
		listable++
	}
	if named == 0 {
		listable = relays
	}
	slices.Sort(r.listed)
	low, limit := 1, min(3, listable)
	if n := len(r.listed); n > 0 {
		low = min(max(1, r.listed[n/10]), listable, 64)
		limit = min(max(low, r.listed[n*9/10]), listable, 64)
	}
	history := Duration(time.Hour)
	if r.oldest > 0 && r.now > r.oldest {
		history = min(Duration(time.Duration(r.now-r.oldest)*time.Second), Duration(5*365*24*time.Hour))
	}
	median, sigma := r.size()
	comments := 0.0
	if r.total.roots > 0 {
		comments = float64(r.total.comments) / float64(r.total.roots)
	}
	line("\n[repositories]\ncount = %d\nowners = %d\nzipf = %s\nrelays-min = %d\nrelays-max = %d\ncopies-min = 1\ncopies-max = %d",
		max(1, len(r.repos)), max(1, len(r.owners)), short(r.zipf()), low, limit, limit)
	line("roots = %d\ncomments = %s\nhistory = %q\nbytes = %d\nbytes-sigma = %s", r.total.roots, short(min(comments, 1000)), history, median, short(sigma))
	perDay := func(n int) string { return short(float64(n) / recordDays) }
	line("\n# Of the last %d days.\n[publishers]\nroots-per-day = %s\ncomments-per-day = %s\nstates-per-day = %s\nedits-per-day = %s\ndeletions-per-day = %s\ncopies-max = %d",
		recordDays, perDay(r.recent.roots), perDay(r.recent.comments), perDay(r.recent.states), perDay(r.recent.edits), perDay(r.recent.deletions), limit)
	return b.Bytes()
}

// keys is what differs from a relay without limits.
func (o *Observed) keys() string {
	text := ""
	add := func(key string, n uint32) {
		if n > 0 {
			text += fmt.Sprintf("%s = %d\n", key, min(n, 1_000_000))
		}
	}
	add("limits.subscriptions", o.Subscriptions)
	add("limits.filters", o.Filters)
	add("limits.limit", o.Limit)
	add("limits.default-limit", o.Limit)
	add("limits.message-bytes", o.Message)
	if !o.Negentropy {
		text += "negentropy.supported = false\n"
	}
	if o.Auth {
		text += "auth.challenge = \"connect\"\nauth.read = true\n"
	}
	return text
}

func compareObserved(a, b Observed) int {
	order := func(x, y bool) int {
		switch {
		case x == y:
			return 0
		case x:
			return -1
		}
		return 1
	}
	return cmp.Or(order(a.Bootstrap, b.Bootstrap), order(b.Dead, a.Dead), order(a.Negentropy, b.Negentropy), order(a.Auth, b.Auth),
		cmp.Compare(a.Subscriptions, b.Subscriptions), cmp.Compare(a.Filters, b.Filters), cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Message, b.Message))
}

// size returns the median of the texts and the spread of their logarithms.
func (r *Recording) size() (median int, sigma float64) {
	if len(r.sizes) == 0 {
		return 300, 1
	}
	slices.Sort(r.sizes)
	median = min(r.sizes[len(r.sizes)/2], 60_000)
	high := r.sizes[len(r.sizes)*84/100] // one sigma above the median
	if median > 0 && high > median {
		sigma = math.Log(float64(high) / float64(median))
	}
	return median, min(sigma, 3)
}

// zipf fits the exponent to the roots of the largest repositories.
func (r *Recording) zipf() float64 {
	sizes := slices.Sorted(maps.Values(r.repos))
	slices.Reverse(sizes)
	var n, sumX, sumY, sumXY, sumXX float64
	for i, size := range sizes[:min(len(sizes), 100)] {
		if size == 0 {
			break
		}
		x, y := math.Log(float64(i+1)), math.Log(float64(size))
		n, sumX, sumY, sumXY, sumXX = n+1, sumX+x, sumY+y, sumXY+float64(x*y), sumXX+float64(x*x)
	}
	if d := float64(n*sumXX) - float64(sumX*sumX); n >= 3 && d > 0 {
		return min(max(0, -(float64(n*sumXY)-float64(sumX*sumY))/d), 3)
	}
	return 1
}

// short writes a number with a few digits.
func short(x float64) string { return strconv.FormatFloat(math.Round(x*1000)/1000, 'f', -1, 64) }
