package testkit

import (
	"io"
	"net/http"
)

// Forward answers a request as the server at a URL does, with what change makes of the body
// of the answer to a POST. If the server does not answer, neither does Forward.
func Forward(w http.ResponseWriter, r *http.Request, server string, change func(body []byte) []byte) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, server+r.URL.RequestURI(), r.Body)
	if err != nil {
		return
	}
	request.Header = r.Header.Clone()
	resp, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
	if r.Method == http.MethodPost {
		body = change(body)
	}
	_, _ = w.Write(body)
}
