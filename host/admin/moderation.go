package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"talon/host/backup"
	"talon/host/moderation"
	"talon/host/moderation/enforce"
	"talon/host/moderation/reports"
)

// pathModerate is POST, a Moderate. The answer is lines of JSON, a moderateLine each.
const pathModerate = "/moderate"

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

// moderateLine is progress, or, as the last line, what came of it.
type moderateLine struct {
	Progress *enforce.Progress `json:"progress,omitempty"`
	Result   *Moderated        `json:"result,omitempty"`
	Error    string            `json:"error,omitempty"`
}

func (h *handler) moderate(w http.ResponseWriter, r *http.Request) {
	var ask Moderate
	if err := parse(r, &ask); err != nil {
		answer(w, statusOf(err), failure{err.Error()})
		return
	}
	// Much may have to be taken down. A client that goes ends nothing: the rows are in force.
	on := http.NewResponseController(w)
	if err := errors.Join(on.SetReadDeadline(time.Time{}), on.SetWriteDeadline(time.Time{})); err != nil {
		answer(w, http.StatusInternalServerError, failure{err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/jsonl")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := json.NewEncoder(w)
	say := func(line moderateLine) {
		err := errors.Join(on.SetWriteDeadline(time.Now().Add(readTime)), lines.Encode(line))
		if errors.Join(err, on.Flush()) != nil {
			cancel()
		}
	}
	said := time.Time{}
	result, err := h.Moderator.Moderate(ctx, ask, func(p enforce.Progress) {
		if now := time.Now(); now.Sub(said) > 200*time.Millisecond {
			said = now
			say(moderateLine{Progress: &p})
		}
	})
	if err != nil {
		say(moderateLine{Error: err.Error()})
		return
	}
	for _, row := range result.Rows {
		if ask.DryRun {
			break
		}
		h.log.Info("the operator moderates", "action", row.Action, "target", row.Target.String(), "reason", row.Reason, "by", row.By, "row", row.Number)
	}
	say(moderateLine{Result: &result})
}

// Moderate adds rows to the server's moderation log, and waits until they are carried out. It calls
// progress as the server reports it.
func (c *Client) Moderate(ctx context.Context, ask Moderate, progress func(enforce.Progress)) (result Moderated, err error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return result, err
	}
	patient := http.Client{Transport: c.http.Transport} // the server says when it ends
	resp, err := c.request(ctx, &patient, http.MethodPost, pathModerate, nil, http.Header{}, text)
	if err != nil {
		return result, err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(bufio.NewReader(resp.Body))
	for {
		var line moderateLine
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return result, errors.New("the answer was cut off: the server has stopped; what is in talon moderate log is in force")
		case err != nil:
			return result, err
		case line.Error != "":
			return result, errors.New(line.Error)
		case line.Result != nil:
			return *line.Result, nil
		case line.Progress != nil:
			progress(*line.Progress)
		}
	}
}

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
