// failure is the error that a call must end with.
export async function failure(promise) {
  try {
    await promise;
  } catch (err) {
    return err;
  }
  throw new Error('the call succeeded');
}
