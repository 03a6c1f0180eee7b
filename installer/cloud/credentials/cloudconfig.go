// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package credentials

import (
	"fmt"
	"strconv"

	"github.com/csccm/csccm/pkg/cloudstack"
)

type setting struct {
	key, value string
	secret     bool
}

// settings are a Config's non-default values by their names in the file.
func settings(c *cloudstack.Config) []setting {
	return []setting{
		{key: "api-url", value: c.APIURL},
		{key: "api-key", value: c.APIKey, secret: true},
		{key: "secret-key", value: c.SecretKey, secret: true},
		{key: "project-id", value: c.ProjectID},
		{key: "zone", value: c.Zone},
		{key: "region", value: c.Region},
		{key: "ssl-no-verify", value: onlyTrue(c.SSLNoVerify)},
		{key: "ca-file", value: c.CAFile},
		{key: "timeout", value: c.Timeout.String()},
		{key: "job-timeout", value: c.JobTimeout.String()},
		{key: "rate-limit", value: strconv.FormatFloat(c.RateLimit, 'f', -1, 64)},
		{key: "rate-burst", value: strconv.Itoa(c.RateBurst)},
		{key: "cluster-id", value: c.ClusterID},
	}
}

func onlyTrue(b bool) string {
	if b {
		return strconv.FormatBool(b)
	}
	return ""
}

// Differences names the settings in which two configurations differ; values are
// shown only where they are no secrets.
func Differences(current, wanted *cloudstack.Config) []string {
	was, now := settings(current), settings(wanted)
	var out []string
	for i := range now {
		switch {
		case was[i].value == now[i].value:
		case now[i].secret:
			out = append(out, now[i].key+" differs")
		default:
			out = append(out, fmt.Sprintf("%s is %s, would be %s", now[i].key, quoted(was[i].value), quoted(now[i].value)))
		}
	}
	return out
}

func quoted(s string) string {
	if s == "" {
		return "not set"
	}
	return strconv.Quote(s)
}
