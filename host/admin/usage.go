package admin

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// AddressUsage is how many bytes of events were accepted from an address today.
type AddressUsage struct {
	Address string `json:"address"`
	Bytes   int64  `json:"bytes"`
}

const (
	pathAddresses = "/addresses" // GET, limit

	maxAddresses     = 10_000
	defaultAddresses = 50
)

func (h *handler) addresses(r *http.Request) (any, error) {
	limit, err := limitOf(r, defaultAddresses, maxAddresses)
	if err != nil {
		return nil, err
	}
	list := []AddressUsage{}
	if h.Addresses != nil {
		list = append(list, h.Addresses(limit)...)
	}
	return list, nil
}

// Addresses returns the addresses with the highest number of accepted bytes of events today, at the
// node that answers.
func (c *Client) Addresses(ctx context.Context, limit int) (list []AddressUsage, err error) {
	err = c.get(ctx, pathAddresses, url.Values{"limit": {strconv.Itoa(limit)}}, &list)
	return list, err
}
