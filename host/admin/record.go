package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"talon/host/plugin"
)

// pathRecord is GET, with for, most, plugin and redact. The answer is lines as they
// are taken; what came of the recording is the trailer.
const (
	pathRecord    = "/record"
	recordTrailer = "Talon-Recorded"
)

// Record asks for a sample of decisions.
type Record struct {
	Plugin string        // empty: the chain
	For    time.Duration // 0: DefaultRecordTime
	Max    int           // lines; 0: DefaultRecordLines
	Redact string        // content, address, or both with a comma between them
}

// Defaults of a recording.
const (
	DefaultRecordTime  = time.Minute
	DefaultRecordLines = 10_000
)

func (h *handler) record(w http.ResponseWriter, r *http.Request) {
	ask, err := parseRecord(r.URL.Query())
	if err != nil {
		answer(w, http.StatusBadRequest, failure{err.Error()})
		return
	}
	// A recording lasts longer than other answers. It ends if the client stops reading.
	on := http.NewResponseController(w)
	if err := errors.Join(on.SetReadDeadline(time.Time{}), on.SetWriteDeadline(time.Time{})); err != nil {
		answer(w, http.StatusInternalServerError, failure{err.Error()})
		return
	}
	begun := false
	came, err := h.Plugins.Record(r.Context(), ask, func(lines []byte) error {
		if !begun {
			begun = true
			w.Header().Set("Content-Type", "application/jsonl")
			w.Header().Set("Trailer", recordTrailer)
			h.log.Info("the operator records decisions", "plugin", ask.Plugin, "for", ask.For.String(), "most", ask.Max)
		}
		if err := on.SetWriteDeadline(time.Now().Add(readTime)); err != nil {
			return err
		}
		if _, err := w.Write(lines); err != nil {
			return err
		}
		return on.Flush()
	})
	switch {
	case err != nil && !begun:
		answer(w, statusOf(err), failure{err.Error()})
		return
	case err != nil:
		h.log.Info("a recording was cut off", "err", err)
		panic(http.ErrAbortHandler) // the client must not take it for a whole one
	}
	summary, err := json.Marshal(came)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = on.SetWriteDeadline(time.Now().Add(readTime)) // as above
	w.Header().Set(recordTrailer, string(summary))
}

func parseRecord(query url.Values) (ask plugin.Recording, err error) {
	ask = plugin.Recording{Plugin: query.Get("plugin"), For: DefaultRecordTime, Max: DefaultRecordLines}
	if text := query.Get("for"); text != "" {
		if ask.For, err = time.ParseDuration(text); err != nil || ask.For <= 0 || ask.For > plugin.MaxRecordTime {
			return ask, fmt.Errorf("for %.20q is wrong: want a time up to %v, such as 30s", text, plugin.MaxRecordTime)
		}
	}
	if text := query.Get("most"); text != "" {
		if ask.Max, err = strconv.Atoi(text); err != nil || ask.Max < 1 || ask.Max > plugin.MaxRecordLines {
			return ask, fmt.Errorf("most %.20q is wrong: want a number from 1 to %d", text, plugin.MaxRecordLines)
		}
	}
	ask.Redact, err = plugin.ParseRedaction(query.Get("redact"))
	return ask, err
}

// maxRecorded bounds what a client reads of a recording.
const maxRecorded = 512 << 20

// Record writes whole lines to w, as they come; begun is called when the server has
// begun. It returns the result only if the recording ends by itself.
func (c *Client) Record(ctx context.Context, ask Record, w io.Writer, begun func()) (came plugin.Recorded, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"plugin": ask.Plugin, "redact": ask.Redact} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if ask.For != 0 {
		query.Set("for", ask.For.String())
	}
	if ask.Max != 0 {
		query.Set("most", strconv.Itoa(ask.Max))
	}
	patient := http.Client{Transport: c.http.Transport} // the server says when it ends
	resp, err := c.request(ctx, &patient, http.MethodGet, pathRecord, query, http.Header{}, nil)
	if err != nil {
		return came, err
	}
	defer resp.Body.Close()
	begun()
	if err := copyLines(w, io.LimitReader(resp.Body, maxRecorded)); err != nil {
		return came, err
	}
	if err := json.Unmarshal([]byte(resp.Trailer.Get(recordTrailer)), &came); err != nil {
		return came, errors.New("the recording was cut off: the server has stopped, or this was read too slowly")
	}
	return came, nil
}

// copyLines copies whole lines only: a file that is cut off must stay readable.
func copyLines(w io.Writer, r io.Reader) error {
	lines := bufio.NewReaderSize(r, 64<<10)
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case err != nil:
			return fmt.Errorf("read the recording: %w", err)
		default:
			if _, err := w.Write(line); err != nil {
				return fmt.Errorf("write the recording: %w", err)
			}
			line = line[:0]
		}
	}
}
