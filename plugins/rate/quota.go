package main

import (
	"strconv"

	"talon/sdk/policy"
)

const day = 24 * 60 * 60

// quota is how many bytes an author may store in a day.
type quota struct {
	most     int64
	refusals [25]policy.Verdict // by the hours until the day is over

	today  int64  // days since 1970
	prefix string // of today's keys
}

func newQuota(most int64) quota {
	q := quota{most: most, today: -1}
	for hours := range q.refusals {
		q.refusals[hours] = policy.Reject("rate-limited",
			"this author has stored enough for today, try again in "+inUnits(hours, "hour")).By("author-bytes")
	}
	return q
}

func (q *quota) off() bool { return q.most == 0 }

// take counts size bytes of an author. An event that does not fit is not counted:
// a smaller one may.
func (q *quota) take(facts policy.Facts, author policy.PubKey, size int64) policy.Verdict {
	now := facts.Now()
	if today := now / day; today != q.today {
		q.today, q.prefix = today, "bytes:"+strconv.FormatInt(today, 10)+":"
	}
	left := day - now%day
	key := facts.Key(q.prefix, string(author[:]))
	if facts.KVIncr(key, size, left) <= q.most {
		return policy.Pass()
	}
	facts.KVIncr(key, -size, left)
	hours := (left + 3599) / 3600
	return q.refusals[min(max(hours, 1), int64(len(q.refusals)-1))]
}
