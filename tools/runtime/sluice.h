/* Sluice's loader for other languages: the samples of one node of a graph, in a loop of one's own.
 *
 * Strings are UTF-8. A string that is returned is good until the same thread's next call; null and
 * -1 mean that sluice_error() says why. No C++ exception crosses. A loader is used by one thread at
 * a time, and in the process that opened it. */
#ifndef SLUICE_H
#define SLUICE_H
#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_ABI 3

typedef struct sluice_loader sluice_loader;
typedef struct sluice_batch sluice_batch;
struct DLManagedTensor; /* dlpack.h */

int sluice_abi(void);

/* {"graphs": [FILE...], "text": JSON or null, "node": "batch", "set": ["path=value"...],
 *  "threads": 0, "prefetch": 2, "share": false, "state": {...} or null, "force": false} */
sluice_loader* sluice_open(const char* request_json);

/* Waits at most so long. *found becomes 1: a batch; 0: none yet; 2: an epoch has ended; 3: there
 * will be no more; -1: an error. It is no result, which an interrupt in the caller may lose. */
void sluice_next(sluice_loader*, int timeout_ms, int* found, sluice_batch** out);
void sluice_close(sluice_loader*); /* ends the run; batches stay */

int sluice_fields(const sluice_batch*);
const char* sluice_field(const sluice_batch*, int);
/* Of a field: the tensor, whose memory lives until its deleter is called; null without an error
 * where the field holds none. An interrupted caller may ask again, until it says that it has all:
 * then the batch holds none of that memory any more, and has no tensors. */
struct DLManagedTensor* sluice_tensor(const sluice_batch*, int);
void sluice_taken(sluice_batch*);
/* {"name", "epoch", "index", "fields": {"image": [{"path": FILE, "name": that of its sample,
 * "affine": 4 rows of 4 or null}]}}, for each member of a batch. */
const char* sluice_meta(const sluice_batch*);
void sluice_free(sluice_batch*);

const char* sluice_state(sluice_loader*); /* for a request's "state": what was taken so far */
const char* sluice_profile(
    sluice_loader*);               /* as profile.json of a run; null before the first batch */
const char* sluice_messages(void); /* what a run would have said on stderr since the last call */
/* {"exit": 3, "text": "...", "node", "sample", "diagnostics": [...]}, of this thread's last
 * failure; `exit` as the exit codes of the command line. */
const char* sluice_error(void);

#ifdef __cplusplus
}
#endif
#endif
