// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podlog reads the controller's log, in klog's text and JSON forms.
package podlog

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Line is one entry of a log.
type Line struct {
	At     time.Time // zero where the line has none
	Level  byte      // I, W, E or F
	Source string    // file.go:123
	// Message is the program's own constant text; what varies is in Values.
	Message string
	Values  []Value
}

// Value is one key of a structured entry.
type Value struct{ Key, Text string }

// Get is the text of a key; "" without it.
func (l *Line) Get(key string) string {
	for _, v := range l.Values {
		if v.Key == key {
			return v.Text
		}
	}
	return ""
}

// Error tells whether the entry reports a failure.
func (l *Line) Error() bool { return l.Level == 'E' || l.Level == 'F' }

// header is klog's: level, month and day, time, process, source.
var header = regexp.MustCompile(`^([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d+)\s+\d+ ([\w.-]+:\d+)\] (.*)$`)

// Parse reads one line; false for what no klog wrote (a stack trace, a library's own words). now tells
// the year, which klog's text form leaves out.
func Parse(text string, now time.Time) (Line, bool) {
	if strings.HasPrefix(text, "{") {
		return parseJSON(text)
	}
	m := header.FindStringSubmatch(text)
	if m == nil {
		return Line{}, false
	}
	l := Line{Level: m[1][0], Source: m[3], At: timeOf(m[2], now)}
	quoted, err := strconv.QuotedPrefix(m[4])
	if err != nil {
		l.Message = m[4]
		return l, true
	}
	l.Message, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
	l.Values = parseValues(m[4][len(quoted):])
	return l, true
}

func timeOf(text string, now time.Time) time.Time {
	at, err := time.Parse("2006 0102 15:04:05.999999", fmt.Sprintf("%d %s", now.UTC().Year(), text))
	if err != nil {
		return time.Time{}
	}
	if at.After(now.Add(24 * time.Hour)) { // of last year
		at = at.AddDate(-1, 0, 0)
	}
	return at
}

// nextKey begins the next value after one without quotes.
var nextKey = regexp.MustCompile(` [A-Za-z][\w.-]*=`)

// parseValues reads `key="quoted" other=bare`; a value without quotes ends at the next key.
func parseValues(rest string) []Value {
	var out []Value
	for {
		rest = strings.TrimLeft(rest, " ")
		key, after, found := strings.Cut(rest, "=")
		if !found {
			return out
		}
		if quoted, err := strconv.QuotedPrefix(after); err == nil {
			text, _ := strconv.Unquote(quoted)
			out = append(out, Value{key, text})
			rest = after[len(quoted):]
			continue
		}
		end := len(after)
		if at := nextKey.FindStringIndex(after); at != nil {
			end = at[0]
		}
		out = append(out, Value{key, after[:end]})
		rest = after[end:]
	}
}

// parseJSON reads klog's JSON form: ts in milliseconds, msg, caller, v for what is no error.
func parseJSON(text string) (Line, bool) {
	var raw map[string]any
	if json.Unmarshal([]byte(text), &raw) != nil {
		return Line{}, false
	}
	message, hasMessage := raw["msg"].(string)
	ts, hasTime := raw["ts"].(float64)
	if !hasMessage || !hasTime {
		return Line{}, false
	}
	l := Line{Level: 'E', Message: message}
	whole, fraction := math.Modf(ts)
	l.At = time.UnixMilli(int64(whole)).Add(time.Duration(fraction * float64(time.Millisecond))).UTC()
	if _, info := raw["v"]; info {
		l.Level = 'I'
	}
	l.Source, _ = raw["caller"].(string)
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		switch key {
		case "msg", "ts", "v", "caller":
		default:
			l.Values = append(l.Values, Value{key, plain(raw[key])})
		}
	}
	return l, true
}

func plain(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

// ParseAll reads a log and says how many of its lines were none of klog's.
func ParseAll(text string, now time.Time) (lines []Line, others int) {
	for raw := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(raw) == "" {
			continue
		}
		if l, ok := Parse(raw, now); ok {
			lines = append(lines, l)
		} else {
			others++
		}
	}
	return lines, others
}
