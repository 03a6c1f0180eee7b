// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podlog parses the controller's log, in klog's text and JSON formats.
package podlog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Line is one entry of a log.
type Line struct {
	At     time.Time // zero if the line has no valid time
	Level  byte      // I, W, E or F
	Source string    // file.go:123
	// Message is the constant text of the entry; variable data is in Values, by key.
	Message string
	Values  map[string]string
}

// Error reports whether the entry is an error or a fatal error.
func (l *Line) Error() bool { return l.Level == 'E' || l.Level == 'F' }

// header matches klog's header: level, month and day, time, process ID, source.
var header = regexp.MustCompile(`^([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d+)\s+\d+ ([\w.-]+:\d+)\] (.*)$`)

// pair matches `key="quoted"` and `key=bare`; a bare value ends at a blank.
var pair = regexp.MustCompile(`([\w.-]+)=("(?:[^"\\]|\\.)*"|\S*)`)

// Parse parses one line. It returns false for lines that klog did not write, such as stack traces. now determines
// the year, which klog's text format omits.
func Parse(text string, now time.Time) (Line, bool) {
	if strings.HasPrefix(text, "{") {
		return parseJSON(text)
	}

	m := header.FindStringSubmatch(text)
	if m == nil {
		return Line{}, false
	}

	at, err := time.Parse("2006 0102 15:04:05.999999", fmt.Sprintf("%d %s", now.UTC().Year(), m[2]))
	if err == nil && at.After(now.Add(24*time.Hour)) { // the line is from last year
		at = at.AddDate(-1, 0, 0)
	}

	l := Line{Level: m[1][0], Source: m[3], At: at}
	quoted, err := strconv.QuotedPrefix(m[4])
	if err != nil {
		l.Message = m[4]
		return l, true
	}

	l.Message, _ = strconv.Unquote(quoted) // QuotedPrefix has checked it
	l.Values = map[string]string{}
	for _, m := range pair.FindAllStringSubmatch(m[4][len(quoted):], -1) {
		text, err := strconv.Unquote(m[2])
		if err != nil {
			text = m[2]
		}
		l.Values[m[1]] = text
	}

	return l, true
}

// parseJSON parses klog's JSON format: ts in milliseconds, msg, caller, and v, which error entries do not have.
func parseJSON(text string) (Line, bool) {
	var raw map[string]any
	err := json.Unmarshal([]byte(text), &raw)
	message, hasMessage := raw["msg"].(string)
	ts, hasTime := raw["ts"].(float64)
	if err != nil || !hasMessage || !hasTime {
		return Line{}, false
	}

	l := Line{Level: 'E', Message: message, At: time.UnixMicro(int64(ts * 1000)).UTC(), Values: map[string]string{}}
	if _, info := raw["v"]; info {
		l.Level = 'I'
	}

	l.Source, _ = raw["caller"].(string)
	for key, value := range raw {
		if !slices.Contains([]string{"msg", "ts", "v", "caller"}, key) {
			l.Values[key] = fmt.Sprint(value)
		}
	}

	return l, true
}

// ParseAll parses a log and omits the lines that klog did not write.
func ParseAll(text string, now time.Time) (lines []Line) {
	for raw := range strings.SplitSeq(text, "\n") {
		if l, ok := Parse(raw, now); ok {
			lines = append(lines, l)
		}
	}
	return lines
}
