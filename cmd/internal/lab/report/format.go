package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"talon/cmd/internal/lab/result"
)

// clock writes a time as hours, minutes and seconds.
func clock(s float64) string {
	days := ""
	if s >= 86400 {
		days = fmt.Sprintf("%dd ", int(s)/86400)
	}
	whole := int(s)
	return fmt.Sprintf("%s%02d:%02d:%06.3f", days, whole/3600%24, whole/60%60, s-float64(whole/60*60))
}

// format writes a value in the unit that a person would choose.
func format(x float64, u result.Unit) string {
	switch u {
	case result.Share:
		return share(x)
	case result.Time:
		return span(x)
	case result.Hours:
		return span(x * 3600)
	case result.Bytes:
		return scaled(x, 1024, "B", "KiB", "MiB", "GiB", "TiB")
	case result.Ratio, result.Index:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	if x < 100 {
		return trimmed(x, 1)
	}
	if x < 10_000 {
		return trimmed(x, 0)
	}
	return scaled(x, 1000, "", "k", "M", "G", "T")
}

// share writes percents. It never rounds a smaller share up to 100.
func share(x float64) string {
	text := strconv.FormatFloat(100*x, 'f', 2, 64)
	switch {
	case text == "100.00" && x < 1:
		text = ">99.99"
	case text == "0.00" && x > 0:
		text = "<0.01"
	default:
		text = strings.TrimSuffix(text, ".00")
	}
	return text + " %"
}

func span(s float64) string {
	switch abs := math.Abs(s); {
	case abs == 0:
		return "0"
	case abs < 1:
		return trimmed(s*1000, 0) + " ms"
	case abs < 120:
		return trimmed(s, 1) + " s"
	case abs < 2*3600:
		return trimmed(s/60, 1) + " min"
	case abs < 48*3600:
		return trimmed(s/3600, 1) + " h"
	}
	return trimmed(s/86400, 1) + " d"
}

func scaled(x, base float64, units ...string) string {
	i := 0
	for math.Abs(x) >= base && i < len(units)-1 {
		x /= base
		i++
	}
	decimals := 2
	if i == 0 || math.Abs(x) >= 100 {
		decimals = 0
	} else if math.Abs(x) >= 10 {
		decimals = 1
	}
	return strings.TrimSpace(trimmed(x, decimals) + " " + units[i])
}

func trimmed(x float64, decimals int) string {
	text := strconv.FormatFloat(x, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}
