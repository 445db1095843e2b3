package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"
)

// A long answer is lines of JSON. Each is an object with one key: progress, and in the last line
// error or the key of the result.
const (
	keyProgress = "progress"
	keyError    = "error"

	progressTime = 200 * time.Millisecond // between two lines of progress
)

// longAnswer runs work and answers with its progress and its result, however long it takes. A
// client that goes ends the context of work. It calls urgent, which may be nil, to learn whether
// progress is written immediately after the line before.
func longAnswer[P, R any](w http.ResponseWriter, r *http.Request, key string, urgent func(before, now P) bool,
	work func(ctx context.Context, progress func(P)) (R, error)) (result R, err error) {
	on := http.NewResponseController(w)
	if err := errors.Join(on.SetReadDeadline(time.Time{}), on.SetWriteDeadline(time.Time{})); err != nil {
		answer(w, http.StatusInternalServerError, failure{err.Error()})
		return result, err
	}
	w.Header().Set("Content-Type", "application/jsonl")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	lines := json.NewEncoder(w)
	say := func(key string, value any) {
		err := errors.Join(on.SetWriteDeadline(time.Now().Add(readTime)), lines.Encode(map[string]any{key: value}))
		if errors.Join(err, on.Flush()) != nil {
			cancel()
		}
	}
	var said time.Time
	var before P
	result, err = work(ctx, func(p P) {
		if now := time.Now(); now.Sub(said) > progressTime || urgent != nil && urgent(before, p) {
			said, before = now, p
			say(keyProgress, p)
		}
	})
	if err != nil {
		say(keyError, err.Error())
	} else {
		say(key, result)
	}
	return result, err
}

// askLong asks for a long answer, and calls progress as the server reports it. cut is the error of
// an answer without an end.
func askLong[P, R any](ctx context.Context, c *Client, path string, ask any, key string, cut error, progress func(P)) (result R, err error) {
	text, err := json.Marshal(ask)
	if err != nil {
		return result, err
	}
	patient := http.Client{Transport: c.http.Transport} // the server says when it ends
	resp, err := c.request(ctx, &patient, http.MethodPost, path, nil, http.Header{}, text)
	if err != nil {
		return result, err
	}
	defer resp.Body.Close()
	lines := json.NewDecoder(bufio.NewReader(resp.Body))
	for {
		var line map[string]json.RawMessage
		err := lines.Decode(&line)
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return result, cut
		case err != nil:
			return result, err
		case line[keyError] != nil:
			var reason string
			if err := json.Unmarshal(line[keyError], &reason); err != nil {
				return result, err
			}
			return result, errors.New(reason)
		case line[key] != nil:
			return result, json.Unmarshal(line[key], &result)
		case line[keyProgress] != nil:
			var p P
			if err := json.Unmarshal(line[keyProgress], &p); err != nil {
				return result, err
			}
			progress(p)
		}
	}
}
