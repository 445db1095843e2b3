package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Top is what a node is busy with.
type Top struct {
	Since         time.Time `json:"since"`   // of the counts of events: the minute before this one, or the start
	Events        int64     `json:"events"`  // that clients sent
	Refused       int64     `json:"refused"` // of these
	Connections   int       `json:"connections"`
	Subscriptions int       `json:"subscriptions"`

	Networks  []TopCount `json:"networks"`  // with most connections now
	Addresses []TopCount `json:"addresses"` // that sent most events
	Authors   []TopCount `json:"authors"`   // npubs
	Kinds     []TopCount `json:"kinds"`
	Reasons   []TopCount `json:"reasons"` // of refusals
	Slow      []TopQuery `json:"slow"`    // of the last two minutes, the longest first
}

// TopCount is a name with a count.
type TopCount struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// TopQuery is a query that took long.
type TopQuery struct {
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Address string    `json:"address"`
	Verb    string    `json:"verb"`
	Filters string    `json:"filters"` // cut
}

const (
	pathTop = "/top" // GET, limit

	maxTop     = 100
	defaultTop = 5
)

func (h *handler) top(r *http.Request) (any, error) {
	limit, err := limitOf(r, defaultTop, maxTop)
	if err != nil || h.Top == nil {
		return Top{}, err
	}
	return h.Top(limit), nil
}

// Top returns what the node that answers is busy with: at most limit of each list.
func (c *Client) Top(ctx context.Context, limit int) (top Top, err error) {
	err = c.get(ctx, pathTop, url.Values{"limit": {strconv.Itoa(limit)}}, &top)
	return top, err
}
