// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package service

import (
	"cmp"
	"iter"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
)

// Key identifies a Service in the queue. A new Service with the same name has another UID.
type Key struct {
	Namespace string
	UID       types.UID
}

// KeyOf returns the key of a Service.
func KeyOf(svc *corev1.Service) Key { return Key{svc.Namespace, svc.UID} }

// ordered returns keys in a deterministic order, so that recorded histories can be replayed.
func ordered(keys iter.Seq[Key]) []Key {
	return slices.SortedFunc(keys, func(a, b Key) int { return cmp.Compare(a.UID, b.UID) })
}

// fairQueue is the order in which Services are synced: one of each namespace in turn. The Services of one namespace
// never occupy all workers. It implements workqueue.Queue.
//
// A worker always asks for the next Service after it has called done, so done need not wake another worker.
type fairQueue struct {
	mu         sync.Mutex
	waiting    map[string][]Key
	namespaces []string       // namespaces with waiting Services, the next one first
	working    map[string]int // Services that are being synced, by namespace
	most       int            // maximum of one namespace at a time; zero for no limit
}

// queueName is the label of the metrics workqueue_*, the same as in the service controller of Kubernetes.
const queueName = "service"

func newFairQueue() *fairQueue {
	return &fairQueue{waiting: map[string][]Key{}, working: map[string]int{}}
}

func newQueue(c clock.WithTicker, fair *fairQueue) workqueue.TypedDelayingInterface[Key] {
	return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[Key]{
		Name: queueName, Clock: c,
		Queue: workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[Key]{Name: queueName, Clock: c, Queue: fair}),
	})
}

func (q *fairQueue) Touch(Key) {}

// Len returns the number of waiting Services whose namespace may have another worker.
func (q *fairQueue) Len() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, namespace := range q.namespaces {
		if q.admits(namespace) {
			n += len(q.waiting[namespace])
		}
	}
	return n
}

func (q *fairQueue) Push(k Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting[k.Namespace]) == 0 {
		q.namespaces = append(q.namespaces, k.Namespace)
	}
	q.waiting[k.Namespace] = append(q.waiting[k.Namespace], k)
}

func (q *fairQueue) Pop() Key {
	q.mu.Lock()
	defer q.mu.Unlock()
	at := slices.IndexFunc(q.namespaces, q.admits)
	namespace := q.namespaces[at]
	q.namespaces = slices.Delete(q.namespaces, at, at+1)
	list := q.waiting[namespace]
	if len(list) > 1 {
		q.waiting[namespace] = list[1:]
		q.namespaces = append(q.namespaces, namespace)
	} else {
		delete(q.waiting, namespace)
	}
	q.working[namespace]++
	return list[0]
}

// admits reports whether a namespace may have another worker.
func (q *fairQueue) admits(namespace string) bool {
	return q.most == 0 || q.working[namespace] < q.most
}

// done records that the sync of a Service has ended.
func (q *fairQueue) done(k Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.working[k.Namespace]--; q.working[k.Namespace] == 0 {
		delete(q.working, k.Namespace)
	}
}
