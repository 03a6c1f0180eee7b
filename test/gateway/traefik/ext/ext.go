// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ext holds the types that Traefik's configuration embeds from a module that is not published. They are empty
// in Traefik too.
package ext

// HTTP would add fields to the HTTP configuration.
type HTTP struct{}

// Router would add fields to a router.
type Router struct{}
