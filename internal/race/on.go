//go:build race

package race

const (
	Detector = true
	Factor   = 20
)
