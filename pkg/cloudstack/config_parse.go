// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudstack

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/csccm/csccm/pkg/typo"
)

const (
	maxConfigSize = 1 << 20 // bytes
	sectionGlobal = "global"
)

// configKey is one key of [Global]: how it is read and written.
type configKey struct {
	name string
	set  func(c *Config, value string) error
	get  func(c *Config) string // "" = not written
}

// configKeys are all keys, in the order in which Render writes them.
var configKeys = []configKey{
	textKey("api-url", func(c *Config) *string { return &c.APIURL }),
	textKey("api-key", func(c *Config) *string { return &c.APIKey }),
	textKey("secret-key", func(c *Config) *string { return &c.SecretKey }),
	textKey("project-id", func(c *Config) *string { return &c.ProjectID }),
	textKey("zone", func(c *Config) *string { return &c.Zone }),
	textKey("region", func(c *Config) *string { return &c.Region }),
	{
		name: "ssl-no-verify",
		set: func(c *Config, v string) (err error) {
			c.SSLNoVerify, err = parseBool(v)
			return err
		},
		get: func(c *Config) string {
			if c.SSLNoVerify {
				return "true"
			}
			return ""
		},
	},
	textKey("ca-file", func(c *Config) *string { return &c.CAFile }),
	durationKey("timeout", "60s", defaultTimeout, func(c *Config) *time.Duration { return &c.Timeout }),
	durationKey("job-timeout", "10m", defaultJobTimeout, func(c *Config) *time.Duration { return &c.JobTimeout }),
	{
		name: "rate-limit",
		set: func(c *Config, v string) error {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil || f < 0 || math.IsNaN(f) || math.IsInf(f, 0) {
				return errors.New("is not a number of calls per second; write for example 20, or 0 for unlimited")
			}
			c.RateLimit = f
			return nil
		},
		get: func(c *Config) string {
			if c.RateLimit == defaultRateLimit {
				return ""
			}
			return strconv.FormatFloat(c.RateLimit, 'f', -1, 64)
		},
	},
	{
		name: "rate-burst",
		set: func(c *Config, v string) error {
			n, err := strconv.Atoi(v)
			if err != nil || n < 1 {
				return errors.New("is not a whole number above 0; write for example 40")
			}
			c.RateBurst = n
			return nil
		},
		get: func(c *Config) string {
			if c.RateBurst == defaultRateBurst || c.RateBurst <= 0 {
				return ""
			}
			return strconv.Itoa(c.RateBurst)
		},
	},
	textKey("previous-record-key", func(c *Config) *string { return &c.PreviousRecordKey }),
	textKey("cluster-id", func(c *Config) *string { return &c.ClusterID }),
}

func textKey(name string, field func(*Config) *string) configKey {
	return configKey{
		name: name,
		set:  func(c *Config, v string) error { *field(c) = v; return nil },
		get:  func(c *Config) string { return *field(c) },
	}
}

func durationKey(name, example string, def time.Duration, field func(*Config) *time.Duration) configKey {
	return configKey{
		name: name,
		set: func(c *Config, v string) error {
			d, err := time.ParseDuration(v)
			if err != nil || d <= 0 {
				return fmt.Errorf("is not a duration above 0; write a number with a unit, for example %s", example)
			}
			*field(c) = d
			return nil
		},
		get: func(c *Config) string {
			if d := *field(c); d > 0 && d != def {
				return d.String()
			}
			return ""
		},
	}
}

// parseBool takes the words that gcfg, upstream's parser, takes.
func parseBool(v string) (bool, error) {
	switch strings.ToLower(v) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errors.New("is neither true nor false")
}

// ParseConfig reads a cloud-config; an unknown section or key is an error that names it.
//
// Section and key names are read in any case. A value may stand in double
// quotes, with \" and \\ in them; outside quotes a comment begins with # or ;
// after a blank, so that keys may hold these characters. Errors say the line
// where they can, and never repeat a value.
func ParseConfig(r io.Reader) (*Config, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxConfigSize+1))
	if err != nil {
		return nil, fmt.Errorf("cloud-config: %w", err)
	}
	if len(text) > maxConfigSize {
		return nil, errors.New("cloud-config: is larger than 1 MiB")
	}
	cfg := DefaultConfig()
	found := false
	section := ""
	for i, l := range scanLines(string(text)) {
		var err error
		switch l.kind {
		case lineBlank:
		case lineBroken:
			err = errors.New("is neither [Global] nor key = value nor a comment")
		case lineSection:
			section = strings.ToLower(l.name)
			if section != sectionGlobal {
				err = fmt.Errorf("unknown section [%s]; there is only [Global]", shown(l.name))
			}
			found = true
		case lineKey:
			if section == "" {
				err = fmt.Errorf("key %s stands above any section; write [Global] above it", shown(l.name))
				break
			}
			err = cfg.set(l.name, l.value)
		}
		if err != nil {
			return nil, fmt.Errorf("cloud-config: line %d: %w", i+1, err)
		}
	}
	if !found {
		return nil, errors.New("cloud-config: section [Global] is missing")
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("cloud-config: %w", err)
	}
	return &cfg, nil
}

// set reads one key.
func (c *Config) set(name, raw string) error {
	name = strings.ToLower(name)
	for i := range configKeys {
		k := &configKeys[i]
		if k.name != name {
			continue
		}
		value, err := unquote(raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if value == "" {
			return nil // as if it were not there
		}
		if err := k.set(c, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	if near := nearestKey(name); near != "" {
		return fmt.Errorf("unknown key %s; did you mean %s?", shown(name), near)
	}
	names := make([]string, len(configKeys))
	for i := range configKeys {
		names[i] = configKeys[i].name
	}
	return fmt.Errorf("unknown key %s; known are %s", shown(name), strings.Join(names, ", "))
}

// unquote reads a value as gcfg does: double quotes with escapes, or bare text
// up to a comment.
func unquote(raw string) (string, error) {
	raw = strings.TrimSpace(raw)
	if !strings.HasPrefix(raw, `"`) {
		for i := range len(raw) {
			if (raw[i] == '#' || raw[i] == ';') && (i == 0 || raw[i-1] == ' ' || raw[i-1] == '\t') {
				raw = raw[:i]
				break
			}
		}
		raw = strings.TrimSpace(raw)
		if len(raw) >= 2 && raw[0] == '\'' && raw[len(raw)-1] == '\'' {
			raw = raw[1 : len(raw)-1]
		}
		return raw, nil
	}
	var b strings.Builder
	for i := 1; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			rest := strings.TrimSpace(raw[i+1:])
			if rest != "" && rest[0] != '#' && rest[0] != ';' {
				return "", errors.New(`has text after the closing quote; write \" for a quote inside`)
			}
			return b.String(), nil
		case '\\':
			i++
			if i == len(raw) {
				return "", errors.New("has no closing quote")
			}
			switch raw[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case '"', '\\':
				b.WriteByte(raw[i])
			default:
				return "", errors.New(`has an unknown escape; inside quotes write \\ for a backslash`)
			}
		default:
			b.WriteByte(raw[i])
		}
	}
	return "", errors.New("has no closing quote")
}

// nearestKey is the known key that a misspelt one probably means, or "".
func nearestKey(name string) string {
	plain := func(s string) string {
		return strings.NewReplacer("-", "", "_", "", ".", "", " ", "").Replace(strings.ToLower(s))
	}
	const longest = 40 // no key comes near that, and a value that has slipped may be of any length
	if len(name) > longest {
		return ""
	}
	best, bestDistance := "", 3
	for i := range configKeys {
		known := configKeys[i].name
		if plain(known) == plain(name) {
			return known
		}
		if d := typo.Distance(plain(known), plain(name)); d < bestDistance {
			best, bestDistance = known, d
		}
	}
	return best
}

// shown quotes a name for an error text. A long one is probably a value that
// has slipped, perhaps a secret.
func shown(name string) string {
	const longest = 32
	if len(name) > longest {
		return fmt.Sprintf("(a name of %d characters)", len(name))
	}
	return strconv.Quote(name)
}
