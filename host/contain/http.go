package contain

import (
	"errors"
	"net/http"
)

// Handler serves with h. A request whose handler panics is answered with 500 if nothing was
// sent yet, and its connection closes: what was sent may be half of an answer.
func (g *Guard) Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tracked := &response{ResponseWriter: w}
		defer func() {
			p := recover()
			if p == nil {
				return
			}
			if err, ok := p.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				g.Record(p)
				if !tracked.began {
					w.Header().Set("Connection", "close")
					http.Error(w, "The server failed to answer this request.", http.StatusInternalServerError)
					return
				}
			}
			panic(http.ErrAbortHandler) // the server closes the connection and logs nothing
		}()
		h.ServeHTTP(tracked, r)
	})
}

// response knows whether something was sent, or the connection was taken over.
type response struct {
	http.ResponseWriter
	began bool
}

func (r *response) WriteHeader(status int) {
	r.began = true
	r.ResponseWriter.WriteHeader(status)
}

func (r *response) Write(b []byte) (int, error) {
	r.began = true
	return r.ResponseWriter.Write(b)
}

// Unwrap is for [http.ResponseController].
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
