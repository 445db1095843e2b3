package admin

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"talon/host/backup"
	"talon/host/moderation"
	"talon/host/moderation/enforce"
	"talon/host/moderation/reports"
)

// pathModerate is POST, a Moderate. The answer is a long one, with a Moderated.
const pathModerate = "/moderate"

// keyResult is the key of a Moderated.
const keyResult = "result"

// pathQueue is GET, limit.
const pathQueue = "/moderate/queue"

const (
	maxQueue     = 2000
	defaultQueue = 100
)

// Moderate asks for new rows of the moderation log.
type Moderate struct {
	Rows   []moderation.Row `json:"rows"`
	DryRun bool             `json:"dry_run"` // only count what the rows would concern
}

// Moderated is what came of it.
type Moderated struct {
	Rows   []moderation.Row `json:"rows"` // that were added
	Done   enforce.Progress `json:"done"` // for a dry run: what would be
	DryRun bool             `json:"dry_run,omitempty"`

	Reaching []string      `json:"reaching,omitempty"` // repositories that reach the git objects of the rows
	Backups  []backup.Made `json:"backups,omitempty"`  // that may still have what the rows remove
}

// Moderator adds rows to the moderation log. Its errors are for the operator.
type Moderator interface {
	Moderate(ctx context.Context, ask Moderate, progress func(enforce.Progress)) (Moderated, error)

	// Queue returns what waits for a decision, at most limit.
	Queue(ctx context.Context, limit int) ([]reports.Item, error)
}

func (h *handler) moderate(w http.ResponseWriter, r *http.Request) {
	var ask Moderate
	if err := parse(r, &ask); err != nil {
		answer(w, statusOf(err), failure{err.Error()})
		return
	}
	// Much may have to be taken down. A client that goes ends nothing: the rows are in force.
	result, err := longAnswer(w, r, keyResult, nil, func(ctx context.Context, progress func(enforce.Progress)) (Moderated, error) {
		return h.Moderator.Moderate(ctx, ask, progress)
	})
	if err != nil || ask.DryRun {
		return
	}
	for _, row := range result.Rows {
		h.log.Info("the operator moderates", "action", row.Action, "target", row.Target.String(), "reason", row.Reason, "by", row.By, "row", row.Number)
	}
}

// Moderate adds rows to the server's moderation log, and waits until they are carried out. It calls
// progress as the server reports it.
func (c *Client) Moderate(ctx context.Context, ask Moderate, progress func(enforce.Progress)) (result Moderated, err error) {
	return askLong[enforce.Progress, Moderated](ctx, c, pathModerate, ask, keyResult, errModerateCut, progress)
}

var errModerateCut = errors.New("the answer was cut off: the server has stopped; what is in talon moderate log is in force")

func (h *handler) queue(r *http.Request) (any, error) {
	limit, err := limitOf(r, defaultQueue, maxQueue)
	if err != nil {
		return nil, err
	}
	list, err := h.Moderator.Queue(r.Context(), limit)
	if list == nil {
		list = []reports.Item{}
	}
	return list, err
}

// Queue returns what waits for a decision of an operator, those with the newest reports first.
func (c *Client) Queue(ctx context.Context, limit int) (list []reports.Item, err error) {
	err = c.get(ctx, pathQueue, url.Values{"limit": {strconv.Itoa(limit)}}, &list)
	return list, err
}
