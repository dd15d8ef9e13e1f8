/* five.c - the smallest user of libkvt: a policy by its name, and the format's version. */
#include <stdio.h>

#include "kvt/policy.h"
#include "kvt/trace.h"

int main(void)
{
    const kvt_policy *p = kvt_policy_find("snapkv");
    printf("%s kvt-trace %d.%d\n", p ? p->name : "?", KVT_TRACE_MAJOR, KVT_TRACE_MINOR);
    return !p;
}
