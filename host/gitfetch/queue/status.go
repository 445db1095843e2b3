package queue

import (
	"cmp"
	"slices"
	"strings"
)

// Repository is how a search stands.
type Repository struct {
	Key      string
	Name     string
	Since    int64
	Expires  int64
	Next     int64 // the next round; 0 during one
	Attempts uint32
	Missing  uint32   // objects, at the latest look
	Asking   []string // URLs that are being asked
	Waiting  []string // domains that it waits for
	Refused  []Refused
	Last     Last
}

// Domain is how a domain stands.
type Domain struct {
	Name         string
	InFlight     int
	Waiting      int // repositories
	Requests     uint64
	LastMinute   int // requests
	Failures     uint32
	FailingSince int64
	NotBefore    int64
	Health       uint32
	Reason       string
	Last         Last
}

// Len is the number of searches.
func (q *Queue) Len() int { return len(q.repos) }

// InFlight is the number of requests.
func (q *Queue) InFlight() int { return q.inFlight }

// Repository returns how the search for an identifier stands.
func (q *Queue) Repository(key string) (Repository, bool) {
	r := q.repos[key]
	if r == nil {
		return Repository{}, false
	}
	s := r.status()
	if r.flying > 0 {
		s.Asking = q.asking(r)
	}
	return s, true
}

// Repositories returns how all searches stand, those that are due first, at most so
// many.
func (q *Queue) Repositories(most int) []Repository {
	list := make([]Repository, 0, len(q.repos))
	for _, r := range q.repos {
		list = append(list, r.status())
	}
	slices.SortFunc(list, func(a, b Repository) int {
		return cmp.Or(cmp.Compare(a.Next, b.Next), strings.Compare(a.Key, b.Key))
	})
	list = list[:min(len(list), most)]
	for i := range list {
		if r := q.repos[list[i].Key]; r.flying > 0 {
			list[i].Asking = q.asking(r)
		}
	}
	return list
}

func (r *repo) status() Repository {
	s := Repository{
		Key: r.key, Name: r.name, Since: r.since, Expires: r.expires, Next: r.next, Attempts: r.attempts, Missing: r.missing, Refused: r.refused, Last: r.last,
	}
	if r.round != nil {
		s.Next = 0
	}
	for _, w := range r.waits {
		if len(w.urls) > 0 {
			s.Waiting = append(s.Waiting, w.domain.name)
		}
	}
	return s
}

func (q *Queue) asking(r *repo) (urls []string) {
	for _, f := range q.flights {
		if f.repo == r && f.domain != nil {
			urls = append(urls, f.url)
		}
	}
	slices.Sort(urls)
	return urls
}

// Domains returns how the domains stand, the busiest first, at most so many.
func (q *Queue) Domains(now int64, most int) []Domain {
	list := make([]Domain, 0, len(q.domains))
	for _, d := range q.domains {
		s := Domain{
			Name: d.name, InFlight: d.inFlight, Waiting: len(d.queue), Requests: d.requests, Failures: d.failures,
			FailingSince: d.failingSince, NotBefore: d.notBefore, Health: d.health, Reason: d.reason, Last: d.last,
		}
		for _, start := range d.starts {
			if start > now-minute {
				s.LastMinute++
			}
		}
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Domain) int {
		return cmp.Or(-cmp.Compare(a.InFlight+a.Waiting, b.InFlight+b.Waiting), -cmp.Compare(a.Last.At, b.Last.At), strings.Compare(a.Name, b.Name))
	})
	return list[:min(len(list), most)]
}
