package admin

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"talon/host/gitfetch"
)

// Hunt is the search for git data that an operator can see and hurry.
type Hunt interface {
	// Status returns how the hunt goes, with at most so many repositories and domains.
	Status(most int) gitfetch.Status

	// FetchNow begins a round of the search for an identifier now. The repository is the
	// address of one of them, or empty.
	FetchNow(repository, identifier string) error
}

const (
	pathHunt    = "/hunt"     // GET, limit
	pathHuntNow = "/hunt/now" // POST a hurry
)

type hurry struct {
	Repository string `json:"repository"`
	Identifier string `json:"identifier"`
}

const (
	maxIdentifier = 4096 // bytes
	maxHunted     = 10_000
	defaultHunted = 100
)

func (h *handler) hunts(w http.ResponseWriter, r *http.Request) {
	if h.hunt == nil {
		answer(w, http.StatusNotFound, failure{"this server does not hunt for git data"})
		return
	}
	limit := defaultHunted
	if text := r.URL.Query().Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			answer(w, http.StatusBadRequest, failure{fmt.Sprintf("limit %.20q is wrong: want a number from 1", text)})
			return
		}
		limit = min(n, maxHunted)
	}
	answer(w, http.StatusOK, h.hunt.Status(limit))
}

func (h *handler) huntNow(w http.ResponseWriter, r *http.Request) {
	var ask hurry
	err := parse(r, &ask)
	switch {
	case h.hunt == nil:
		answer(w, http.StatusNotFound, failure{"this server does not hunt for git data"})
		return
	case err != nil:
		answer(w, statusOf(err), failure{err.Error()})
		return
	case ask.Identifier == "" || len(ask.Identifier) > maxIdentifier || len(ask.Repository) > maxIdentifier+100:
		answer(w, http.StatusBadRequest, failure{"the identifier is missing or too long"})
		return
	}
	if err := h.hunt.FetchNow(ask.Repository, ask.Identifier); err != nil {
		answer(w, http.StatusServiceUnavailable, failure{err.Error()})
		return
	}
	h.log.Info("the operator hurries a search", "identifier", ask.Identifier)
	answer(w, http.StatusOK, h.hunt.Status(defaultHunted))
}

// Hunt returns how the hunt for git data goes.
func (c *Client) Hunt(ctx context.Context, limit int) (status gitfetch.Status, err error) {
	err = c.ask(ctx, http.MethodGet, pathHunt, url.Values{"limit": {strconv.Itoa(limit)}}, nil, &status)
	return status, err
}

// HuntNow begins a round of the search for an identifier now.
func (c *Client) HuntNow(ctx context.Context, repository, identifier string) error {
	var status gitfetch.Status
	return c.post(ctx, pathHuntNow, hurry{repository, identifier}, &status)
}
