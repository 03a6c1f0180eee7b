// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

func emptyQueue() *fairQueue { return &fairQueue{waiting: map[string][]Key{}} }

func TestNamespacesTakeTurns(t *testing.T) {
	t.Parallel()
	q := emptyQueue()
	for _, k := range []Key{{"a", "1"}, {"a", "2"}, {"a", "3"}, {"b", "1"}, {"c", "1"}, {"b", "2"}} {
		q.Push(k)
	}
	var got []Key
	for q.Len() > 0 {
		got = append(got, q.Pop())
	}
	assert.Equal(t, []Key{{"a", "1"}, {"b", "1"}, {"c", "1"}, {"a", "2"}, {"b", "2"}, {"a", "3"}}, got)
	assert.Empty(t, q.waiting)
	assert.Empty(t, q.namespaces)
}

func TestNamespaceWithManyServicesDelaysNobody(t *testing.T) {
	t.Parallel()
	q := emptyQueue()
	for i := range 1000 {
		q.Push(Key{"flood", types.UID(fmt.Sprint(i))})
	}
	q.Push(Key{"victim", "1"})
	assert.Equal(t, "flood", q.Pop().Namespace)
	assert.Equal(t, "victim", q.Pop().Namespace)
}

// Whatever is pushed comes out once, in order within its namespace, and no namespace has two turns while another waits.
func TestPropertiesOfFairQueue(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		q := emptyQueue()
		waiting := map[string][]Key{}
		turns := map[string]int{} // of others since the namespace began to wait
		n, length := 0, 0
		for range 400 {
			if length == 0 || n < 150 && r.IntN(2) == 0 {
				k := Key{string(rune('a' + r.IntN(6))), types.UID(fmt.Sprint(n))}
				n++
				length++
				if len(waiting[k.Namespace]) == 0 {
					turns[k.Namespace] = 0
				}
				waiting[k.Namespace] = append(waiting[k.Namespace], k)
				q.Push(k)
				continue
			}
			k := q.Pop()
			length--
			require.NotEmpty(t, waiting[k.Namespace], "seed %d: %v was not waiting", seed, k)
			require.Equal(t, waiting[k.Namespace][0], k, "seed %d", seed)
			waiting[k.Namespace] = waiting[k.Namespace][1:]
			for namespace := range turns {
				turns[namespace]++
				if len(waiting[namespace]) > 0 && namespace != k.Namespace {
					require.Less(t, turns[namespace], 6, "seed %d: %s waits while others have two turns", seed, namespace)
				}
			}
			turns[k.Namespace] = 0
			require.Equal(t, length, q.Len())
		}
		for length > 0 {
			k := q.Pop()
			require.Equal(t, waiting[k.Namespace][0], k, "seed %d", seed)
			waiting[k.Namespace] = waiting[k.Namespace][1:]
			length--
		}
		require.Zero(t, q.Len())
	}
}

// A Service that changes while it is worked on is worked on once more, and by nobody else meanwhile.
func TestQueueKeepsChangesDuringWork(t *testing.T) {
	t.Parallel()
	q := newQueue(clocktesting.NewFakeClock(testTime))
	t.Cleanup(q.ShutDown)
	k := Key{"a", "1"}
	q.Add(k)
	q.Add(k)
	got, _ := q.Get()
	require.Equal(t, k, got)
	q.Add(k)
	q.Add(k)
	assert.Zero(t, q.Len())
	q.Done(k)
	require.Equal(t, 1, q.Len())
	got, _ = q.Get()
	assert.Equal(t, k, got)
	q.Done(k)
	assert.Zero(t, q.Len())
}
