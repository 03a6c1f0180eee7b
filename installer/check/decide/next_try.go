// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"regexp"
	"time"

	"github.com/csccm/csccm/installer/kube/podlog"
)

// retried is Kubernetes' word about a Service whose load balancer failed.
var retried = regexp.MustCompile(`^error processing service (\S+) \(retrying in ([^)]+)\)`)

// NextTries returns when the controller tries a Service again, by namespace/name, as its log says.
func NextTries(logs []Log) map[string]time.Time {
	said := map[string]time.Time{}
	out := map[string]time.Time{}
	for i := range logs {
		for j := range logs[i].Lines {
			l := &logs[i].Lines[j]
			service, wait := nextTry(l)
			if service == "" || l.At.Before(said[service]) {
				continue
			}
			said[service] = l.At
			out[service] = l.At.Add(wait)
		}
	}
	return out
}

// nextTry reads one line; service is "" where it is about something else.
func nextTry(l *podlog.Line) (service string, wait time.Duration) {
	text := l.Get("in")
	service = l.Get("service")
	if m := retried.FindStringSubmatch(l.Message); m != nil {
		service, text = m[1], m[2]
	}
	wait, err := time.ParseDuration(text)
	if err != nil || service == "" {
		return "", 0
	}
	return service, wait
}
