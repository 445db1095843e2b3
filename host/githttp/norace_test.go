//go:build !race

package githttp

const raceEnabled = false
