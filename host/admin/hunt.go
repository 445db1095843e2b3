package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"talon/host/gitfetch"
)

// Hunt lets an operator see the search for git data, and start a round of it.
type Hunt interface {
	// Status returns the status of the hunt, with at most the given number of
	// repositories and of domains.
	Status(ctx context.Context, limit int) (gitfetch.Status, error)

	// FetchNow begins a round of the search for an identifier now. The repository is the
	// address of one of them, or empty.
	FetchNow(ctx context.Context, repository, identifier string) error
}

const (
	pathHunt    = "/hunt"     // GET, limit
	pathHuntNow = "/hunt/now" // POST a hurry
)

type fetchNowRequest struct {
	Repository string `json:"repository"`
	Identifier string `json:"identifier"`
}

const (
	maxIdentifier = 4096 // bytes
	maxHunted     = 10_000
	defaultHunted = 100
)

var noHunt = problem{http.StatusNotFound, errors.New("this server does not hunt for git data")}

func (h *handler) hunts(r *http.Request) (any, error) {
	if h.Hunt == nil {
		return nil, noHunt
	}
	limit, err := limitOf(r, defaultHunted, maxHunted)
	if err != nil {
		return nil, err
	}
	return h.huntStatus(r, limit)
}

func (h *handler) huntNow(r *http.Request) (any, error) {
	if h.Hunt == nil {
		return nil, noHunt
	}
	var ask fetchNowRequest
	if err := parse(r, &ask); err != nil {
		return nil, err
	}
	if ask.Identifier == "" || len(ask.Identifier) > maxIdentifier || len(ask.Repository) > maxIdentifier+100 {
		return nil, problem{http.StatusBadRequest, errors.New("the identifier is missing or too long")}
	}
	if err := h.Hunt.FetchNow(r.Context(), ask.Repository, ask.Identifier); err != nil {
		return nil, problem{http.StatusServiceUnavailable, err}
	}
	h.log.Info("the operator hurries a search", "identifier", ask.Identifier)
	return h.huntStatus(r, defaultHunted)
}

func (h *handler) huntStatus(r *http.Request, limit int) (any, error) {
	status, err := h.Hunt.Status(r.Context(), limit)
	if err != nil {
		return nil, problem{http.StatusServiceUnavailable, err}
	}
	return status, nil
}

// Hunt returns the status of the hunt for git data.
func (c *Client) Hunt(ctx context.Context, limit int) (status gitfetch.Status, err error) {
	err = c.get(ctx, pathHunt, url.Values{"limit": {strconv.Itoa(limit)}}, &status)
	return status, err
}

// HuntNow begins a round of the search for an identifier now.
func (c *Client) HuntNow(ctx context.Context, repository, identifier string) error {
	var status gitfetch.Status
	return c.post(ctx, pathHuntNow, fetchNowRequest{repository, identifier}, &status)
}
