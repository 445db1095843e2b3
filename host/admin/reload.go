package admin

import (
	"context"
	"net/http"

	"talon/host/config"
)

// pathReload is POST. The answer is the list of options that differ.
const pathReload = "/reload"

func (h *handler) reload(*http.Request) (any, error) {
	changes, err := h.Reload()
	if err != nil {
		return nil, problem{http.StatusUnprocessableEntity, err}
	}
	if changes == nil {
		changes = []config.Change{}
	}
	return changes, nil
}

// Reload has the server read its configuration again. It returns the options that differ.
func (c *Client) Reload(ctx context.Context) (changes []config.Change, err error) {
	err = c.post(ctx, pathReload, struct{}{}, &changes)
	return changes, err
}
